"""Signatures and docstrings that are completed with the options that settings declare."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from bigsmic.settings.base import UNSET, MethodSettings
from bigsmic.settings.options import Option, defaults_of, documented

F = TypeVar("F", bound=Callable[..., Any])


def takes_options_of(settings: type[MethodSettings]) -> Callable[[F], F]:
    """Decorate a function that takes the options of a method as ``**options``.

    The signature for :func:`inspect.signature` and completion lists them, and the docstring describes them at the mark
    ``{options}``.
    """

    def complete(function: F) -> F:
        function.__doc__ = documented(function.__doc__ or "", settings.options())
        signature = inspect.signature(function)
        *others, rest = signature.parameters.values()
        taken = [parameter_of(name, option, settings) for name, option in settings.options().items()]
        function.__signature__ = signature.replace(parameters=[*others, *taken, rest])  # type: ignore[attr-defined]
        return function

    return complete


def parameter_of(name: str, option: Option, settings: type[MethodSettings]) -> inspect.Parameter:
    """The option as a keyword parameter of a signature."""
    default = UNSET if option.follows else defaults_of(settings).get(name)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option.annotation)
