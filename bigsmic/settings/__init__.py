"""Settings of the methods, in which every option is declared once.

This package imports nothing heavy, because ``--help`` reads it: settings import numerics only when they use them.
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
