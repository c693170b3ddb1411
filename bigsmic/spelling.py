"""Refusal of unknown options, with suggestions."""

from difflib import get_close_matches
from typing import Any

from bigsmic.errors import OptionError


def refuse_unknown(
    what: str,
    given: Any,
    taken: dict[str, Any] | set[str],
    known: set[str] | None = None,
    meant: Any = lambda name: "",
) -> None:
    """Refuse options that are not accepted.

    Parameters
    ----------
    what : str
        What the options were given to; the message begins with it.
    given, taken : iterable of str
    known : iterable of str, optional
        Names that may have been meant, if they are more than those accepted.
    meant : callable, optional
        ``meant(name)`` returns a hint for an unknown option, or an empty text, after which a similar name is suggested.

    Raises
    ------
    OptionError
        The message lists every unknown option, suggestions, and the accepted options.
    """
    unknown = sorted(set(given) - set(taken))
    if not unknown:
        return
    hints = {name: meant(name) or _similar(name, taken if known is None else known) for name in unknown}
    told = ", ".join(f"{name}= ({hint})" if hint else f"{name}=" for name, hint in hints.items())
    listed = ", ".join(f"{name}=" for name in sorted(taken))
    raise OptionError(f"{what}: got unexpected option{'s' * (len(unknown) > 1)} {told}; it takes {listed}")


def _similar(name: str, known: Any) -> Any:
    found = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {found[0]}=?" if found else ""
