"""Names of options that nobody has, and what may have been meant by them."""

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
    """Refuse options that are not taken.

    Parameters
    ----------
    what : str
        What they were given to; the message begins with it.
    given, taken : iterable of str
    known : iterable of str, optional
        Names of which one may have been meant, where they are more than are taken.
    meant : callable, optional
        ``meant(name)`` returns what an unknown option can be; nothing, and a similar name is looked for.

    Raises
    ------
    OptionError
        It names every unknown option, what may have been meant, and what is taken.
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
