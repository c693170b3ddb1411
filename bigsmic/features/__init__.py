"""Windows of recordings and their features, as rows of a Zarr archive for fits.

:func:`windows` makes them, and :func:`foresee` checks its arguments beforehand. ``definition`` has the specification,
``extraction`` the tasks, and ``archive`` extends the group of windows and returns it. The features themselves are in
:mod:`bigsmic.numerics.windows`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"archive": ["Windows", "foresee", "windows"]}
)
