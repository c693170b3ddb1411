"""Numbers in sentences."""

from collections.abc import Iterable, Sequence


def percent(share: float) -> str:
    """A share in percent; a positive one is never shown as 0, and one below 1 never as 100.

    >>> percent(0.1234), percent(0.00001), percent(0.0), percent(0.99999), percent(1.0)
    ('12.3%', 'under 0.1%', '0%', 'over 99.9%', '100%')
    """
    if share in (0.0, 1.0):
        return f"{100 * share:.0f}%"
    if share < 0.001:
        return "under 0.1%"
    return "over 99.9%" if share > 0.999 else f"{100 * share:.1f}%"


def listed(items: Iterable[object], most: int = 8) -> str:
    """A list of items for a sentence; only the first ones if there are many.

    >>> listed([3]), listed([1, 2]), listed([1, 2, 3]), listed(range(30), 3)
    ('3', '1 and 2', '1, 2 and 3', '0, 1, 2 and 27 more')
    """
    texts: Sequence[str] = [str(item) for item in items]
    if len(texts) > most:
        return f"{', '.join(texts[:most])} and {len(texts) - most:,} more"
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"
