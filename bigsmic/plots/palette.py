"""Colours of clusters: as distinct as possible, also to the colour-blind, and visible on light and dark backgrounds."""

from functools import cache

import numpy as np

from bigsmic.types import Floats
from bigsmic.validation import check_integer

FIRST = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The colours of Okabe and Ito's palette that are visible on white and on black."""
NONE = "#8b949e"
"""Colour of rows in no cluster."""
SURENESS = ("#d55e00", "#e69f00", "#56b4e9", "#0072b2")
"""Colours from the least certain rows to the most certain."""
LUMINANCE = 0.12, 0.45
"""Range of relative luminance: a contrast of at least 2 to white and of at least 3 to black."""
LEVELS = 18
"""Levels of red, green and blue; the candidate colours are all their combinations."""
MOST = 256
"""Number of different colours; further clusters repeat them from the first."""

_TO_LMS = np.array([[17.8824, 43.5161, 4.11935], [3.45565, 27.1554, 3.86714], [0.0299566, 0.184309, 1.46709]])
"""Responses of the cones to linear sRGB (Vienot, Brettel, Mollon 1999)."""
_BLIND = {  # replaces the response of the missing cone by those of the others
    "protan": np.array([[0, 2.02344, -2.52581], [0, 1, 0], [0, 0, 1]]),
    "deutan": np.array([[1, 0, 0], [0.494207, 0, 1.24827], [0, 0, 1]]),
}
_OF_LUMINANCE = np.array([0.2126, 0.7152, 0.0722])


def palette(n_colors: int) -> list[str]:
    """Colours of clusters.

    Parameters
    ----------
    n_colors : int

    Returns
    -------
    colors : list of str
        Such as ``"#0072b2"``. The colour of cluster k does not depend on the number of clusters: it is the one farthest
        from all colours before it, the least distance over normal, red-blind and green-blind vision [1]_. From the
        257th on, colours repeat.

    Raises
    ------
    InputError
        `n_colors` is no integer of at least 0.

    Notes
    -----
    Fifty colours cannot be told apart reliably: plots therefore also name clusters if there is room.

    References
    ----------
    .. [1] Petroff, "Accessible color sequences for data visualization", 2021. arXiv:2107.02270
    """
    check_integer("n_colors", n_colors, 0)
    every = _every()
    return [every[k % MOST] for k in range(n_colors)]


@cache
def _every() -> tuple[str, ...]:
    levels = np.linspace(0, 1, LEVELS)
    colors = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    luminance = _linear(colors) @ _OF_LUMINANCE
    colors = colors[(luminance >= LUMINANCE[0]) & (luminance <= LUMINANCE[1])]
    first = np.array([[int(name[at : at + 2], 16) / 255 for at in (1, 3, 5)] for name in FIRST])
    chosen, seen, seen_first = list(FIRST), _seen(colors), _seen(first)
    nearest = np.min([_distance(seen, of_one) for of_one in np.moveaxis(seen_first, 1, 0)], axis=0)
    while len(chosen) < MOST:
        at = int(nearest.argmax())
        chosen.append("#" + "".join(f"{round(255 * level):02x}" for level in colors[at]))
        nearest = np.minimum(nearest, _distance(seen, seen[:, at]))
    return tuple(chosen)


def _distance(seen: Floats, one: Floats) -> Floats:
    """Distance of every colour to one, the least over the kinds of vision: float64, shape (m,)."""
    distances: Floats = np.linalg.norm(seen - one[:, None], axis=2).min(axis=0)
    return distances


def _seen(colors: Floats) -> Floats:
    """Colours in Oklab as each kind of vision perceives them: float64, shape (3, m, 3)."""
    linear = _linear(colors)
    lms = linear @ _TO_LMS.T
    back = np.linalg.inv(_TO_LMS).T
    return np.stack([_oklab(linear), *(_oklab(np.clip(lms @ matrix.T @ back, 0, 1)) for matrix in _BLIND.values())])


def _linear(colors: Floats) -> Floats:
    """Intensities of sRGB, 0 to 1."""
    return np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)


def _oklab(linear: Floats) -> Floats:
    """Coordinates in Oklab, where distances approximate perceived differences (Ottosson 2020)."""
    to_cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(linear @ to_cones.T) @ to_lab.T
