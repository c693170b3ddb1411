"""Pictures of a finished fit, each drawn into matplotlib's axes: ``f(result, ..., ax=None) -> Axes``.

They need the extra ``plots`` (``pip install 'bigsmic[plots]'``). Colours can be told apart by who is colour-blind as
well, as far as colours of many clusters can, and are seen on light and on dark grounds; text, lines and grounds are
those of matplotlib's style. With `ax` nothing else of matplotlib is touched; without, a new figure of pyplot is made.

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
