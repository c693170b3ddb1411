"""Plots of a finished fit, each drawn into matplotlib's axes: ``f(result, ..., ax=None) -> Axes``.

They need the extra ``plots`` (``pip install 'bigsmic[plots]'``). Colours are chosen to be distinguished by colour-blind
readers too, as far as many colours can be, and to be visible on light and dark backgrounds; text, lines and backgrounds
follow matplotlib's style. With `ax`, only these axes are changed; without it, pyplot creates a new figure.

>>> from bigsmic import plots
>>> plots.map(result)  # doctest: +SKIP
>>> plots.sizes(result, ax=ax)  # doctest: +SKIP
"""

from bigsmic.plots.clusters import agreement, relations, sizes, tree
from bigsmic.plots.columns import profiles
from bigsmic.plots.maps import map
from bigsmic.plots.numbers import curve, labelings
from bigsmic.plots.palette import palette
from bigsmic.plots.times import timeline

__all__ = ["agreement", "curve", "labelings", "map", "palette", "profiles", "relations", "sizes", "timeline", "tree"]
