"""Correspondence between the clusters of an earlier and a later fit."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from bigsmic.numerics.labeling import matching
from bigsmic.types import Integers


@dataclass(frozen=True)
class Match:
    """Clusters that continue those of an earlier fit, new ones, and those that vanished.

    Attributes
    ----------
    continued : dict of int to int
        Cluster of the earlier fit by the cluster that continues it: equal numbers after a fit with ``like=``.
    overlap : dict of int to float
        Of the continued clusters: harmonic mean of the share of the earlier cluster's rows that are in the later one,
        and of the share of the later one's that were in the earlier one. At least one half.
    new : list of int
        Clusters that continue none.
    vanished : list of int
        Clusters of the earlier fit that none continues.
    splits : dict of int to list of int
        Clusters of the earlier fit that were split, with the clusters that consist mostly of their rows.
    merges : dict of int to list of int
        Clusters that merge several of the earlier fit, with these, most of whose rows they contain.
    rows : int
        Rows that were compared.
    by : {"row number", "prediction"}
        Whether common rows were counted, or each fit labelled rows of the other.
    """

    continued: dict[int, int]
    overlap: dict[int, float]
    new: list[int]
    vanished: list[int]
    splits: dict[int, list[int]]
    merges: dict[int, list[int]]
    rows: int
    by: str

    @property
    def sentence(self) -> str:
        """The correspondence as a sentence."""
        parts = [self._continued()]
        parts += [f"new: {_listed(self.new)}"] if self.new else []
        parts += [f"vanished: {_listed(self.vanished)}"] if self.vanished else []
        parts += [f"{cluster} was split into {_listed(into)}" for cluster, into in self.splits.items()]
        parts += [f"{_listed(of)} were merged into {cluster}" for cluster, of in self.merges.items()]
        return "; ".join(parts) + "."

    def _continued(self) -> str:
        known = len(self.continued) + len(self.vanished)
        text = f"{len(self.continued)} of {known} clusters continue"
        moved = [f"{cluster} was {before}" for cluster, before in self.continued.items() if cluster != before]
        return f"{text} ({', '.join(moved)})" if moved else text

    def __str__(self) -> str:
        return self.sentence

    def renumbered(self, numbers: Sequence[int]) -> Self:
        """The same with renumbered later clusters.

        Parameters
        ----------
        numbers : sequence of int
            New numbers, indexed by the present ones.
        """
        return type(self)(
            _rekeyed(self.continued, numbers),
            _rekeyed(self.overlap, numbers),
            sorted(int(numbers[j]) for j in self.new),
            self.vanished,
            {i: sorted(int(numbers[j]) for j in into) for i, into in self.splits.items()},
            _rekeyed(self.merges, numbers),
            self.rows,
            self.by,
        )

    def document(self) -> dict[str, Any]:
        """JSON-like form, with lists of pairs for dicts, as keys in JSON are texts."""
        return {name: _pairs(value) if isinstance(value, dict) else value for name, value in asdict(self).items()}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Self:
        """From the form of `document`."""
        found = {name: document[name] for name in cls.__dataclass_fields__}
        return cls(**found | {name: dict(found[name]) for name in ("continued", "overlap", "splits", "merges")})


@dataclass(frozen=True)
class Counts:
    """Counts of rows by their clusters in two fits.

    Parameters
    ----------
    stayed, came : ndarray of int64, shape (a, b)
        Counts of rows of the earlier fit, and of rows of the later one; the same table if the rows are the same.
    by : str
        As in :class:`Match`.
    """

    stayed: Integers
    came: Integers
    by: str

    @property
    def rows(self) -> int:
        """Rows that were compared."""
        own = 0 if self.stayed is self.came else self.came.sum()
        return int(self.stayed.sum() + own)

    def match(self, before: Integers, after: Integers) -> Match:
        """Correspondence of clusters; `before` and `after` are the numbers of the tables' rows and columns."""
        stayed, came = self.stayed, self.came
        earlier, overlap = matching.continued(stayed, came), matching.overlap(stayed, came)
        continued = {j: int(earlier[j]) for j in after.tolist() if earlier[j] >= 0}
        return Match(
            continued,
            {j: float(overlap[i, j]) for j, i in continued.items()},
            [j for j in after.tolist() if j not in continued],
            [i for i in before.tolist() if i not in continued.values()],
            matching.splits(stayed, came),
            matching.merges(stayed, came),
            self.rows,
            self.by,
        )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _rekeyed(mapping: Mapping[int, Any], numbers: Sequence[int]) -> dict[int, Any]:
    return dict(sorted((int(numbers[key]), value) for key, value in mapping.items()))


def _pairs(mapping: Mapping[int, Any]) -> list[list[Any]]:
    return [[key, value] for key, value in mapping.items()]
