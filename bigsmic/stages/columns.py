"""columns: names of the columns of the fitted rows, if they have any; new rows must have the same in the same order."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from bigsmic.errors import AbsentResultError, InputError
from bigsmic.runtime.context import Context
from bigsmic.store import Run, open_source
from bigsmic.types import Floats

STAGE = "columns"
LISTED = 10
"""Names that a message lists at most."""


def keep(run: Run, source: Any) -> None:
    """Write the names of the columns, if they have names."""
    names = list(source.column_names)
    if names and not run.done(STAGE, 0):
        run.write(STAGE, 0, {}, info={"names": names})


def read(run: Run) -> list[str]:
    """Names of the columns of the fit; empty if they have none, or the run is of a version that kept none."""
    return list(run.info(STAGE, 0)["names"]) if run.done(STAGE, 0) else []


def scaled(context: Context, X: Any) -> Floats:
    """Rows centred and scaled as the fit did, float32, shape (m, d).

    Raises
    ------
    InputError
        The rows have other columns than those of the fit, or the fit was of a graph.
    """
    if context.settings.precomputed:
        raise AbsentResultError("scaled: the fit was of a graph, which has no columns to scale; fit rows")
    source = open_source(X)
    m, d = source.shape
    if d != context.d:
        raise InputError(f"scaled: X has {d} columns, but the fit was made with {context.d}; give (m, {context.d})")
    refuse_others(context.run, source.column_names, "scaled")
    return context.column_scaler.apply(source.read(0, m))


def refuse_others(run: Run, names: Sequence[str], who: str) -> None:
    """Refuse rows whose columns have names, but not those of the fit in its order.

    Parameters
    ----------
    run : Run
        Of a finished fit.
    names : sequence of str
        Names of the columns of new rows; empty if they have none, which is not refused.
    who : str
        Who asks, for messages.

    Raises
    ------
    InputError
    """
    refuse_other_names(read(run), names, who)


def refuse_other_names(fitted: Sequence[str], names: Sequence[str], who: str) -> None:
    """The same for the names of the columns of the fit."""
    if not fitted or not names or list(names) == fitted:
        return
    pairs = zip_longest(names, fitted)
    column, (found, known) = next((j, pair) for j, pair in enumerate(pairs) if pair[0] != pair[1])
    if known is None:
        what = f"X has a column {found!r}, which the fit has not"
    elif found is None:
        what = f"X has no column {known!r}, which the fit has"
    else:
        what = f"column {column} of X is {found!r}, but {known!r} in the fit"
    if not set(fitted) <= set(names):
        remedy = "give the columns of the fit, or an array without names"
    else:
        of_file = f", or component={','.join(fitted)!r} of a table" if len(fitted) <= LISTED else ""
        remedy = f"give {'them in the order' if len(names) == len(fitted) else 'those'} of the fit, X[names]{of_file}"
    raise InputError(f"{who}: {what}; {remedy}")
