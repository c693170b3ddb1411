"""Redaction of URLs in messages: no user, no password, no query, no storage option."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bigsmic.types import StorageOptions

_USER = re.compile(r"(?<=://)[^/\s'\"]*@")
_QUERY = re.compile(r"(?<=[^\s'\"?])\?[^\s'\"?]*=[^\s'\"]*")
_HIDDEN = "***"
_OPEN = ("endpoint_url", "region_name", "region", "protocol", "mode")
"""Options whose values help to understand a message and are no secrets; secrets of a URL among them are hidden."""


def shown(location: Any) -> str:
    """Return a location without its secrets, for messages.

    >>> shown("ftp://me:word@host/run.zarr?sig=abc")
    'ftp://***@host/run.zarr?***'

    A path may have come from such a URL, and is also shown without its query.
    """
    return _QUERY.sub(f"?{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", str(location)))


def scrubbed(text: str, location: Any = "", storage_options: StorageOptions = None) -> str:
    """Return the text of an error without what `location` and `storage_options` keep secret.

    Parameters
    ----------
    text : str
    location : str
        Its user and password are removed wherever they occur.
    storage_options : dict, optional

    Returns
    -------
    text : str
    """
    secrets = {*_values(storage_options or {}), *_user_of(str(location))}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return _QUERY.sub(f"?{_HIDDEN}", _USER.sub(f"{_HIDDEN}@", text))


def _values(options: Any) -> Iterator[Any]:
    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from _values(value)
        elif isinstance(value, str | bytes) and key not in _OPEN:
            text = value if isinstance(value, str) else value.decode(errors="replace")
            yield from [text] if len(text) > 3 else []  # shorter values are no secrets, and occur within words


def _user_of(location: str) -> list[Any]:
    found = re.search(r"://([^/\s]*)@", location)
    return [part for part in found[1].split(":") if len(part) > 3] if found else []
