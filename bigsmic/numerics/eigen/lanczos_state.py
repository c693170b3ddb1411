"""Parameters, state at a restart, and result of a Lanczos solve."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bigsmic.errors import InputError
from bigsmic.numerics.eigen.bulk import BulkRule
from bigsmic.numerics.eigen.chebyshev import Filter

MANY = 128
"""Eigenpairs from which on they are many; see :meth:`LanczosParams.suited`."""
MANY_WIDTH, MANY_AMPLIFICATION = 16, 200.0
"""Columns of a block, and amplification by filters, for many pairs."""


@dataclass(frozen=True)
class LanczosParams:
    """Parameters of a Lanczos solve.

    Parameters
    ----------
    n_wanted : int
        Eigenpairs, those of the algebraically largest eigenvalues.
    tol : float
        Residual norm relative to the largest absolute Ritz value; at least 16 eps, 2e-6 in float32.
    max_matvecs : int or None
        Limit on the products of K with one vector; None: 2000 + 300 n_wanted.
    block_width : int
        Columns per block. An eigenvalue of higher multiplicity needs a random start for every `block_width` copies.
    dimension : int or None
        Columns of the basis; None: ``n_wanted + 7 block_width``. At most n.
    degree : int
        Largest degree of the filter, odd, 1 for none; long solves take up to three times as much.
    bulk : BulkRule or None
        Rule by which vectors after a clear gap need not reach `tol`; None: all must reach it.
    amplification : float
        Value of a filter at the largest eigenvalue that is not known; it is at most 1 in absolute value on the
        unwanted part of the spectrum. A larger one spends products on pairs that have converged.
    pauses : bool
        Whether the solve ends in a state from which one for more pairs can go on.
    """

    n_wanted: int
    tol: float = 1e-4
    max_matvecs: int | None = None
    block_width: int = 8
    dimension: int | None = None
    degree: int = 9
    bulk: BulkRule | None = None
    amplification: float = 20.0
    pauses: bool = False

    @classmethod
    def suited(cls, n_wanted: int, **others: Any) -> "LanczosParams":
        """Parameters suited to the number of eigenpairs.

        Where it is large, most time goes into orthogonalisation, not into products: blocks are wider, as products
        of narrow matrices are slow; the basis grows further between two rotations; and higher degrees cost little.

        Parameters
        ----------
        n_wanted : int
        **others
            Parameters that do not depend on it.

        Raises
        ------
        InputError
        """
        if n_wanted < MANY:
            return cls(n_wanted, **others)
        dimension = n_wanted + max(7 * MANY_WIDTH, n_wanted // 2)
        return cls(n_wanted, block_width=MANY_WIDTH, dimension=dimension, amplification=MANY_AMPLIFICATION, **others)

    def __post_init__(self) -> None:
        if self.n_wanted < 1:
            raise InputError(f"lanczos: n_wanted={self.n_wanted} must be at least 1")
        if self.block_width < 1:
            raise InputError(f"lanczos: block_width={self.block_width} must be at least 1")
        if not 0 < self.tol < 1:
            raise InputError(f"lanczos: tol={self.tol} must lie in (0, 1); 1e-4 is usual")
        if self.degree < 1 or self.degree % 2 == 0:
            raise InputError(f"lanczos: degree={self.degree} must be odd and positive; 9 is usual")
        least = self.n_wanted + 2 * self.block_width
        if self.dimension is not None and self.dimension < least:
            raise InputError(f"lanczos: dimension={self.dimension} must be at least n_wanted + 2 block_width = {least}")

    @property
    def matvec_limit(self) -> int:
        """The limit in force."""
        return 2000 + 300 * self.n_wanted if self.max_matvecs is None else self.max_matvecs

    def size(self, n_rows: int) -> int:
        """Columns that the basis needs; a function of n and these parameters only."""
        return min(n_rows, self.dimension or self.n_wanted + 7 * self.block_width)

    def n_retained(self, n_rows: int) -> int:
        """Columns kept at a restart: a few more than wanted, if two more blocks still fit."""
        spare = self.size(n_rows) - self.n_wanted
        return self.n_wanted + max(1, min(spare // 4, spare - 2 * self.block_width))


@dataclass(frozen=True)
class LanczosState:
    """State of a solve at a restart, besides the basis; a solve that is resumed from it has the same bits.

    The basis holds the locked columns, k unlocked Ritz vectors, and a last block that has not been multiplied by K.

    Parameters
    ----------
    images, norms : ndarray of float64, shape (k,)
        Ritz values of p(K), and their expected residual norms with K.
    width : int
        Columns of the last block.
    locked_values, locked_norms : ndarray of float64, shape (n_locked,)
        Eigenvalues of K, and their true residual norms when they were locked.
    filter : Filter
        p.
    n_known : int
        Locked columns that the solve was given: the first, which stay so.
    n_propagated : int
        Locked columns that are older than the last random start.
    n_turns : int
        How often locked columns have been changed. While it is unchanged, columns that were locked earlier are
        unchanged too.
    n_starts : int
        Random starts after the first; 0 again once the basis has spanned the whole space.
    slack : float
        Factor by which true residuals exceed the expected ones.
    low, scale : float
        Smallest, and largest absolute Ritz value of K so far.
    n_matvecs, n_restarts, n_draws : int
        Counters.
    asked_coarse : bool
        Whether a coarse start was asked for, as wanted values may crowd below 1; there may have been none.
    is_paused : bool
        Whether the pairs are found, and a solve for more may go on.
    """

    images: np.ndarray
    norms: np.ndarray
    width: int
    locked_values: np.ndarray
    locked_norms: np.ndarray
    filter: Filter = field(default_factory=Filter)
    n_known: int = 0
    n_propagated: int = 0
    n_turns: int = 0
    n_starts: int = 0
    slack: float = 1.0
    low: float = 0.0
    scale: float = 0.0
    n_matvecs: int = 0
    n_restarts: int = 0
    n_draws: int = 1
    asked_coarse: bool = False
    is_paused: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether there is a block to go on with, and the solve has not paused before it."""
        return self.width > 0 and not self.is_paused

    @property
    def n_locked(self) -> int:
        """Number of locked columns."""
        return len(self.locked_values)


@dataclass(frozen=True)
class LanczosResult:
    """Eigenvalues, residuals and counters of a solve; the eigenvectors are the first n_wanted columns of the basis.

    Parameters
    ----------
    ritz_values : ndarray of float64, shape (n_wanted,), descending
    residual_norms : ndarray of float64, shape (n_wanted,)
        True ``|K v - theta v|`` relative to the largest absolute Ritz value; 0 for known eigenvectors.
    converged : bool
        Whether all pairs have reached the tolerance, except those of a bulk that ended the solve.
    n_parts : int
        Pairs before the bulk that ended the solve; 0 if none did.
    n_converged, n_matvecs, n_restarts : int
    filter : Filter
        The last polynomial, for a warm start of a similar matrix.
    further : LanczosState or None
        State from which a solve for more pairs goes on. Its basis has those of this one as known columns, and then what
        the space holds behind them.
    """

    ritz_values: np.ndarray
    residual_norms: np.ndarray
    converged: bool
    n_converged: int
    n_matvecs: int
    n_restarts: int
    filter: Filter
    n_parts: int = 0
    further: LanczosState | None = None
