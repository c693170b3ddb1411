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
    foreign: Any = (),
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
    foreign : iterable of str, optional
        Names in other libraries, for which `meant` has a hint, that may be misspelt as well.

    Raises
    ------
    OptionError
        The message lists every unknown option, suggestions, and the accepted options.
    """
    unknown = sorted(set(given) - set(taken))
    if not unknown:
        return
    known = set(taken if known is None else known)

    def hint_for(name: str) -> Any:
        if found := meant(name):
            return found
        similar = next(iter(get_close_matches(name, sorted({*known, *foreign}), n=1)), "")
        return f"did you mean {similar}=?" if similar in known else similar and meant(similar)

    hints = {name: hint_for(name) for name in unknown}
    told = ", ".join(f"{name}= ({hint})" if hint else f"{name}=" for name, hint in hints.items())
    listed = ", ".join(f"{name}=" for name in sorted(taken))
    raise OptionError(f"{what}: got unexpected option{'s' * (len(unknown) > 1)} {told}; it takes {listed}")
