"""Weight functions of edges of the neighbour graph, by name.

To add one, write a class here with the field `bandwidth`, whose call is elementwise on edges, symmetric in the local
scales, finite and at least 0, and add its name to `NAMED`. It is used only if it is requested by that name, and is
never a candidate of "auto". This module imports nothing heavy, because settings read the names.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bigsmic.types import Floats

LARGEST_RATIO = 4.0
"""Ratio between the local scales of two rows from which on the smaller one counts as larger than it is."""
LARGEST = float(np.finfo(np.float32).max)
"""Largest bandwidth, as edges have float32 distances."""


class LocalScaling(NamedTuple):
    """``K(d2, s_i, s_j) = exp(-d2 / (bandwidth s_i s_j))``; [1]_ has bandwidth 2, [2]_ has 1.

    The smaller of the two scales counts as at least the larger one over `largest_ratio`. The published formula has no
    such limit: there, outliers whose nearest rows are dense have almost no weight to these, but only to other outliers,
    and any few of them can form a part of the graph, with an eigenvalue as near to 1 as those of clusters.

    Where ``s_i s_j = 0``, coincident points have K = 1 and every other pair 0; never NaN.

    References
    ----------
    .. [1] Sugiyama, Niu, Yamada, Kimura, Hachiya, "Information-maximization clustering based on squared-loss mutual
       information", Neural Computation 26(1), 2014, eq. (7).
    .. [2] Zelnik-Manor, Perona, "Self-tuning spectral clustering", NIPS 2004.
    """

    bandwidth: float = 2.0
    largest_ratio: float = LARGEST_RATIO

    def __call__(self, sq_distances: Floats, sigma_i: Floats, sigma_j: Floats) -> Floats:
        """Weights of edges; arrays of one shape and dtype."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale = sigma_i * sigma_j
            degenerate = ~(scale > 0)  # 0, or an overflow times 0
            scale = np.maximum(scale, np.square(np.maximum(sigma_i, sigma_j)) / scale.dtype.type(self.largest_ratio))
            weights = np.exp(-sq_distances / (scale.dtype.type(self.bandwidth) * scale))
        if degenerate.any():
            weights[degenerate] = sq_distances[degenerate] == 0
        return weights


NAMED: Mapping[str, Any] = {"local_scaling": LocalScaling}
"""Weight functions by name, made as ``NAMED[name](bandwidth)``."""
DEFAULT = "local_scaling"
