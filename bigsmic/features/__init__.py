"""Windows of recordings and their features, as rows of a Zarr archive that a fit takes.

:func:`windows` makes them. ``definition`` says what is asked for, ``extraction`` has the tasks, ``archive`` extends the
group of windows and what it returns. The features themselves are in :mod:`bigsmic.numerics.windows`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"archive": ["Windows", "windows"]})
