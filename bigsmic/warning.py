"""Warnings that point at the line that called bigsmic, however deep in it they are given."""

import sys
import warnings

from bigsmic.errors import BigsmicWarning

INNER = {"bigsmic", "sklearn", "contextlib", "functools"}
"""Packages whose lines tell nothing to the user: bigsmic, and what calls it, or is called by it, on the way."""


def warn(message: str, category: type[Warning] = BigsmicWarning) -> None:
    """Give a warning at the innermost line outside of bigsmic.

    Parameters
    ----------
    message : str
    category : type
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
