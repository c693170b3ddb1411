"""What is solved and what is chosen among: eigenproblems, and readings of their solutions."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One eigenproblem: the kernel of one t-graph.

    Parameters
    ----------
    kernel : {"local_scaling", "normalized", "callable", "precomputed"}
    t : int
    """

    kernel: str
    t: int

    @property
    def name(self):
        """Name of its artifacts."""
        return f"{self.kernel}.t{self.t}"


class Candidate(NamedTuple):
    """One reading of one basis.

    Parameters
    ----------
    problem : Problem
    rotation : bool
        Whether the basis is turned before it is read.
    """

    problem: Problem
    rotation: bool


def problems(settings):
    """All eigenproblems of a fit, neighbouring t next to each other."""
    return [Problem(kernel, t) for kernel in settings.kernels for t in settings.t]


def candidates(settings):
    """All candidates of a fit; of equal scores the first is chosen."""
    return [Candidate(problem, rotation) for problem in problems(settings) for rotation in settings.rotations]
