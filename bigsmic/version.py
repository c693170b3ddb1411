"""The version of this package, and of the packages that it computes with."""

from functools import cache

__version__ = "0.1.0"

COMPUTING = ("numba", "numpy", "pynndescent", "scikit-learn", "scipy", "zarr")
"""Packages whose versions can change a label."""


def versions(*others: str) -> dict[str, str]:
    """Versions on which the bits of results depend: bigsmic, Python, the packages that compute, and `others`."""
    return {"bigsmic": __version__} | _installed(*sorted({*COMPUTING, *others}))


@cache
def _installed(*packages: str) -> dict[str, str]:
    from importlib.metadata import version  # slow, and not needed for the version of this package
    from platform import python_version

    return {"python": python_version()} | {name: version(name) for name in packages}
