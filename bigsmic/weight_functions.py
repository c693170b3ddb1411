"""Identity of weight functions that users pass, by name and code, in this and in later processes."""

import functools
import hashlib
import inspect
import types
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import InputError

NAME = "__bigsmic_name__"
"""Attribute with a name that identifies a function; its user guarantees that the name stands for one function."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_DIGITS = 16


def identity_of(function: Any) -> str:
    """Identity of a kernel function in a stored run: its name, and a digest of its code.

    The digest covers bytecode, constants, defaults, enclosed variables, and the globals that it names. It is the same
    in every process of one version of Python.
    """
    given = getattr(function, NAME, None)
    if given is not None:
        return f"callable named {given}"
    digest = hashlib.sha256(repr(_facts(function, set())).encode()).hexdigest()[:_DIGITS]
    return f"callable {getattr(function, '__module__', '')}.{_name(function)} {digest}"


def refuse_nameless(function: Any) -> None:
    """Refuse a function that a later process could not tell from others, as a run directory outlives this process.

    Raises
    ------
    InputError
    """
    name = _name(function)
    if getattr(function, NAME, None) is None and ("<" in name or isinstance(function, functools.partial)):
        raise InputError(
            f"kernel: {name} has no name by which a run directory could identify it; define it by def in a module, "
            f"set its attribute {NAME} to a unique name, or leave out= out"
        )


def refuse_other(function: Any, stored: Any) -> None:
    """Refuse a function other than that of the run.

    Parameters
    ----------
    function : callable
    stored : object
        Kernel of the run; its identity if it was a function.

    Raises
    ------
    InputError
    """
    got = identity_of(function) if callable(function) else repr(function)
    if str(stored).startswith("callable ") and got != stored:
        raise InputError(f"kernel: the run was made with {stored}, got {got}; pass the function of the fit")


def called(function: Any, names: Sequence[str], *arguments: Any) -> Any:
    """Values of a function at arguments of these names.

    Raises
    ------
    InputError
        It does not take so many arguments.
    """
    try:
        return function(*arguments)
    except TypeError:
        if _takes(function, arguments):
            raise
        raise InputError(
            f"kernel: {_name(function)} cannot be called with {len(arguments)} arguments; give a function of "
            f"({', '.join(names)})"
        ) from None


def _takes(function: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function takes so many arguments, as far as its signature tells."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # a function in C without a signature
        return True
    return True


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def _facts(value: Any, seen: set[int]) -> Any:
    """A value as nested tuples of plain values, without memory addresses; `seen` are the ids of what it is part of."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    for kinds, facts in _KINDS:
        if isinstance(value, kinds):
            return facts(value, seen)
    if hasattr(value, "py_func"):  # compiled by numba
        return _facts(value.py_func, seen)
    return _name(value) if not hasattr(value, "__dict__") else (_name(value), _facts(vars(value), seen))


def _code(code: Any, seen: set[int]) -> Any:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)
    return ("code", code.co_code.hex(), names, _facts(code.co_consts, seen))


def _function(function: Any, seen: set[int]) -> Any:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    named = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__, cells, named)
    return ("function", *(_facts(part, seen) for part in parts))


def _array(array: NDArray[Any], seen: set[int]) -> Any:
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
