"""Specification of an ascent at one strength of the penalty."""

from dataclasses import dataclass

ROUND_ROWS = 1 << 21  # approximate number of rows between two checkpoints


@dataclass(frozen=True)
class Ascent:
    """Specification of an ascent at one strength of the penalty.

    Parameters
    ----------
    number : int
        Number of the point that it reaches.
    reg : float
    n_epochs : int
    spread : float
        Root mean square of a scaled column.
    n_fixed : int
        Number of first categories that are never dropped.
    """

    number: int
    reg: float
    n_epochs: int
    spread: float = 1.0
    n_fixed: int = 0

    @property
    def stage(self) -> str:
        """Stage of its states."""
        return f"restart.ascent.{self.number}"

    def epochs(self, r: int, n: int) -> range:
        """Epochs of round r, 1 and up."""
        each = max(1, ROUND_ROWS // n)
        return range((r - 1) * each, min(r * each, self.n_epochs))

    def rounds(self, n: int) -> int:
        """Number of rounds."""
        return -(-self.n_epochs // max(1, ROUND_ROWS // n))
