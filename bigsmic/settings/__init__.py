"""What each method can be asked: its settings, in which every option is declared once.

Loads nothing heavy, because ``--help`` reads it: what settings need of numerics they import when they are asked.
"""

from bigsmic.settings.base import UNSET, MethodSettings
from bigsmic.settings.options import (
    ARRAY,
    COUNT_OR_ALL,
    FROM_ZERO,
    FUNCTION,
    INTEGER,
    INTEGERS,
    NUMBER_OR_WORD,
    NUMBERS,
    POSITIVE,
    SETS_OF_NUMBERS,
    SHARES,
    SHARES_OR_WORD,
    Kind,
    Option,
    declared,
    option,
)

__all__ = [
    "ARRAY",
    "COUNT_OR_ALL",
    "FROM_ZERO",
    "FUNCTION",
    "INTEGER",
    "INTEGERS",
    "NUMBERS",
    "NUMBER_OR_WORD",
    "POSITIVE",
    "SETS_OF_NUMBERS",
    "SHARES",
    "SHARES_OR_WORD",
    "UNSET",
    "Kind",
    "MethodSettings",
    "Option",
    "declared",
    "option",
]
