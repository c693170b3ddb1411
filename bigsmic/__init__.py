"""Clustering of rows on disk by squared-loss mutual information: reads Zarr, writes labels and their certainty.

>>> import bigsmic
>>> result = bigsmic.fit("archive.zarr", c=33)  # doctest: +SKIP
>>> result.labels, result.posterior, result.scores  # doctest: +SKIP

The public names are listed once, in ``__init__.pyi``. Each is loaded when it is first used: importing the package loads
neither numba nor Dask nor Zarr.
"""

import lazy_loader

from bigsmic.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
