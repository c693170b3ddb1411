"""Numbers in sentences."""

from collections.abc import Iterable, Sequence

from bigsmic.tables import seconds_text

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def count(number: int, singular: str, plural: str = "") -> str:
    """A number of things.

    >>> count(1, "row"), count(1234, "row"), count(2, "valley"), count(0, "axis", "axes")
    ('1 row', '1,234 rows', '2 valleys', '0 axes')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


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


def size(n_bytes: float) -> str:
    """Bytes.

    >>> size(0), size(1536), size(3 << 30)
    ('0 B', '1.5 KiB', '3.0 GiB')
    """
    power = 0
    while n_bytes >= 1024 and power < len(UNITS) - 1:
        n_bytes, power = n_bytes / 1024, power + 1
    return f"{n_bytes:.0f} B" if power == 0 else f"{n_bytes:.1f} {UNITS[power]}"


def duration(seconds: float) -> str:
    """Seconds, or minutes or hours for long durations.

    >>> duration(0.04), duration(75.2), duration(600), duration(9000)
    ('0.04 s', '75 s', '10.0 min', '2.5 h')
    """
    return seconds_text(seconds)


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
