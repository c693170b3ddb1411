"""Side inputs of RIM: known labels, and weights of rows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.store.side_inputs import read_array
from bigsmic.types import StorageOptions
from bigsmic.validation import to_array


def admit(
    settings: Any, given: Mapping[str, Any], n_rows: int, storage_options: StorageOptions = None
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read and check the side inputs, which are arrays in memory or their locations."""
    read = {name: read_array(name, given.get(name), storage_options) for name in settings.side_inputs}
    return settings, checked_side_inputs({name: array for name, array in read.items() if array is not None}, n_rows)


def checked_side_inputs(side_inputs: Mapping[str, Any], n_rows: int) -> dict[str, NDArray[Any]]:
    """Check side inputs and convert them; weights are scaled to sum to the number of rows.

    Raises
    ------
    InputError
        There is not one value per row, a weight is negative, or a label is not 0, 1, .. or -1.
    """
    arrays = {name: np.asarray(to_array(name, array)) for name, array in side_inputs.items()}
    for name, array in arrays.items():
        if array.shape != (n_rows,):
            raise InputError(f"{name}: got shape {array.shape}; give one value for each of the {n_rows} rows")
    if "sample_weight" in arrays:
        weights = to_array("sample_weight", arrays["sample_weight"], np.float64)
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InputError("sample_weight: got negative or infinite weights; use finite ones, 0 or more")
        if not weights.any():
            raise InputError("sample_weight: every weight is zero; give some rows a positive one")
        weights = np.ldexp(weights, -np.frexp(weights.max())[1])  # exact; sums of huge ones overflow, n / sum of tiny
        arrays["sample_weight"] = weights * (n_rows / weights.sum())
    if "labels" in arrays:
        labels = arrays["labels"]
        if labels.dtype.kind not in "iu":
            raise InputError(f"labels: got {labels.dtype}; use integers 0, 1, .. and -1 for none")
        if labels.min() < -1:
            raise InputError(f"labels: got {labels.dtype}, least {labels.min()}; use integers 0, 1, .. and -1 for none")
        if labels.max() > np.iinfo(np.int32).max:
            raise InputError(f"labels: got {labels.max()}; number the known clusters 0, 1, .., and use -1 for none")
        arrays["labels"] = labels.astype(np.int32)
    return arrays


def refuse_more_categories(n_known: int, n_clusters: int) -> None:
    """Refuse known labels of more categories than there can be clusters."""
    if n_known > n_clusters:
        raise InputError(f"labels: got {n_known} categories for {n_clusters} clusters; ask for at least as many")
