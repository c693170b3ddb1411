"""Checks of SMIC's settings that need more than one line."""

from typing import Any

from bigsmic.errors import InputError
from bigsmic.numerics.graph import weights
from bigsmic.validation import brief

_OLD_KERNELS = {"auto": "auto", "normalized": "symmetric"}  # and what they are as normalizations


def check_kernel(kernel: Any) -> None:
    """Refuse what is no weight function."""
    if callable(kernel) or kernel == "callable":
        return
    if isinstance(kernel, str) and kernel in _OLD_KERNELS:
        raise InputError(
            f"kernel: got {kernel!r}, which is not a weight function; leave kernel out and give "
            f"normalization={_OLD_KERNELS[kernel]!r}"
        )
    if kernel not in (*weights.NAMED, "precomputed"):
        raise InputError(f"kernel: got {brief(kernel)}; use a function or one of {(*weights.NAMED, 'precomputed')}")


def check_bandwidth(bandwidth: float) -> None:
    """Refuse a bandwidth that overflows in the kernel."""
    if bandwidth > weights.LARGEST:
        raise InputError(f"bandwidth: got {bandwidth}; use at most {weights.LARGEST:.3g}, the largest float32")


def check_rows_in_no_cluster(settings: Any) -> None:
    """Refuse `noise` and `trim` where they need what the input lacks."""
    if settings.trims and settings.kernel == "precomputed":
        raise InputError(
            "trim: got True with kernel='precomputed', but affinities do not determine the density of rows; give "
            "rows, or distances with metric='precomputed'"
        )
    if settings.noise and settings.kernel == "precomputed":
        raise InputError(
            "noise: got True with kernel='precomputed', but affinities do not determine the density of rows; "
            "give rows, or distances with metric='precomputed'"
        )
    if settings.noise and settings.n_clusters == 1:
        raise InputError(
            "noise: got True with a single cluster, for which no neighbours are searched; give c of at least 2, or "
            "leave noise out"
        )
