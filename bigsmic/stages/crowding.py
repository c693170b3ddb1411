"""How near to 1 the eigenvalues of a graph crowd, by which rules that compare with them are scaled.

In a plane or along curves, the eigenvalues of vectors that vary within clusters approach 1 as rows become more: of
twenty Gaussian clusters in a plane, the 60th is at .996 with 20,000 rows, and at .9999 with a million. The share of the
weights that lies between neighbouring pieces of a cluster decreases with the root of these distances. So does, in a
plane, the part of the degrees that may vary at random before eigenvectors gather where they happen to be large; along
curves it decreases faster, with their power 3/4.
"""

import math

from bigsmic.runtime.context import Context
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems
from bigsmic.types import Floats

CROWDED = 5e-3
"""Distance from 1 within which all eigenvalues crowd: as on the graph of many rows in a plane, or along curves."""
LEAST = 0.01
"""Least factor: eigenvalues that near to 1 are known to hardly a digit."""


def factor(context: Context, eigenproblem: Eigenproblem) -> float:
    """Root of the distance from 1 of the smallest eigenvalue of N on an eigenproblem's graph, in `CROWDED`, at most 1.

    Of the eigenvalues with which the fit has begun, as later ones would change what was made of these. It is 1 if N
    was not solved.
    """
    solved, graph = eigenproblems(context.settings), eigenproblem.graph
    if graph.kernel != "normalized" or graph not in solved or not context.run.done("spectrum", solved.index(graph)):
        return 1.0
    q = solved.index(graph)
    info = context.run.info("spectrum", q)
    while "first" in info:
        info = info["first"]
    values: Floats = context.run.read("spectrum", q, "ritz_values")[: info["n_wanted"]]
    return min(max(math.sqrt(max(1.0 - float(values.min()), 0.0) / CROWDED), LEAST), 1.0)
