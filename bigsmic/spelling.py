"""Names of options in messages: refusal of unknown ones, with suggestions, and other spellings than Python's."""

import re
from collections.abc import Mapping
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


def respelled(message: str, names: Mapping[str, str], leads: bool = True, equals: str = " ") -> str:
    """Return a message with options spelled as they are given elsewhere, not as in Python.

    Parameters
    ----------
    message : str
    names : dict of str to str
        Spellings by name.
    leads : bool
        Whether a name at the beginning of the message is that of an option.
    equals : str
        What stands between an option and its value.

    Returns
    -------
    message : str

    >>> respelled("length: got '1s'; give rate=25, or a step= in samples", {"rate": "windows.rate"}, equals=" = ")
    "length: got '1s'; give windows.rate = 25, or a step= in samples"
    """
    any_name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    only_names = "|".join(re.escape(name) for name in names if "_" in name)  # as the others are English words too
    if leads:
        message = re.sub(rf"\A({any_name})(?=: )", lambda found: names[found[1]], message)
    start = rf"(?<![\w.'/-])({any_name})="
    message = re.sub(rf"{start}(?=[\w'\"\[.-])", lambda found: f"{names[found[1]]}{equals}", message)
    message = re.sub(rf"{start}(?![=\w])", lambda found: names[found[1]], message)
    if not only_names:
        return message
    return re.sub(rf"(?<![\w.'/-])({only_names})(?![\w.'/-])", lambda found: names[found[1]], message)
