"""Functions that users hand in, told apart by name and code, in this process and in the next one."""

import functools
import hashlib
import types
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError
from bigsmic.types import Floats

NAME = "__bigsmic_name__"
"""Attribute by which a function has a name that its user vouches for: whatever its code, it is then the same."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_DIGITS = 16


def identity_of(function: Any) -> Any:
    """Name under which a fit is stored whose kernel is a function, and a digest of its code.

    The digest covers bytecode, constants, defaults, what the function encloses, and the globals that it names. It is
    the same in every process of one version of Python.
    """
    given = getattr(function, NAME, None)
    if given is not None:
        return f"callable named {given}"
    digest = hashlib.sha256(repr(_facts(function, set())).encode()).hexdigest()[:_DIGITS]
    return f"callable {getattr(function, '__module__', '')}.{_name(function)} {digest}"


def refuse_nameless(function: Any) -> None:
    """Refuse a function that another process could not tell from others: a run directory outlives it.

    Raises
    ------
    InputError
    """
    name = _name(function)
    if getattr(function, NAME, None) is None and ("<" in name or isinstance(function, functools.partial)):
        raise InputError(
            f"kernel: {name} has no name of its own, by which a run directory could know it; define it by def in a "
            f"module, or set its attribute {NAME} to a name that no other function has, or leave out= out"
        )


def refuse_other(function: Any, stored: Any) -> None:
    """Refuse a function other than the one that a run was made with.

    Parameters
    ----------
    function : callable
    stored : object
        Kernel of the run; its identity where it was a function.

    Raises
    ------
    InputError
    """
    got = identity_of(function) if callable(function) else repr(function)
    if str(stored).startswith("callable ") and got != stored:
        raise InputError(f"kernel: the run was made with {stored}, got {got}; pass the function of the fit")


def _name(function: Any) -> Any:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _facts(value: Any, seen: Any) -> Any:
    """What a value is, as nested tuples of plain values without memory addresses."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    for kinds, facts in _KINDS:
        if isinstance(value, kinds):
            return facts(value, seen)
    if hasattr(value, "py_func"):  # of numba
        return _facts(value.py_func, seen)
    return _name(value) if not hasattr(value, "__dict__") else (_name(value), _facts(vars(value), seen))


def _code(code: Any, seen: Floats) -> Any:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)
    return ("code", code.co_code.hex(), names, _facts(code.co_consts, seen))


def _function(function: Any, seen: Floats) -> Any:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__, cells, named)
    return ("function", *(_facts(part, seen) for part in parts))


def _array(array: NDArray[Any], seen: Floats) -> Any:
    return ("array", array.dtype.str, array.shape, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())


_KINDS = (
    (types.CodeType, _code),
    (types.FunctionType, _function),
    (types.MethodType, lambda bound, seen: (_facts(bound.__func__, seen), _facts(bound.__self__, seen))),
    (functools.partial, lambda p, seen: ("partial", _facts((p.func, p.args, p.keywords), seen))),
    (types.ModuleType, lambda module, seen: module.__name__),
    (type, lambda kind, seen: f"{kind.__module__}.{kind.__qualname__}"),
    ((np.ndarray, np.generic), lambda array, seen: _array(np.asarray(array), seen)),
    ((tuple, list), lambda values, seen: tuple(_facts(value, seen) for value in values)),
    ((set, frozenset), lambda values, seen: tuple(sorted(repr(_facts(value, seen)) for value in values))),
    (dict, lambda items, seen: tuple(sorted((repr(k), repr(_facts(v, seen))) for k, v in items.items()))),
)
