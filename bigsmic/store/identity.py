"""Differences between the identity of a stored run and that of the requested one, in words."""

from collections.abc import Iterator
from typing import Any

DIFFERENCES = 8  # that a message lists


def differences(stored: Any, asked: Any) -> list[str]:
    """Lines with each stored value and the requested one where they differ; not for settings of another method."""
    names = [name for name in sorted({*_leaves(stored), *_leaves(asked)}) if _at(stored, name) != _at(asked, name)]
    if "settings.method" in names:
        names = ["settings.method", *(name for name in names if not name.startswith("settings."))]
    lines = [
        f"  {name.removeprefix('settings.')}: stored {_at(stored, name)!r}, asked {_at(asked, name)!r}"
        for name in names
    ]
    more = [f"  and {len(lines) - DIFFERENCES} more"] if len(lines) > DIFFERENCES else []
    return lines[:DIFFERENCES] + more


def _leaves(tree: Any) -> Iterator[str]:
    """Dotted names of the leaves of nested dicts."""
    for key, value in tree.items():
        yield from (f"{key}.{leaf}" for leaf in _leaves(value)) if isinstance(value, dict) else [key]


def _at(tree: Any, name: str) -> Any:
    for key in name.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree
