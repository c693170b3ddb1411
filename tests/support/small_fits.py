"""Options and cuts that make a fit take half a second and go through many blocks all the same."""

from dataclasses import replace

import bigsmic.methods.smic.method
import bigsmic.methods.smic.planning
import bigsmic.runtime.context
import bigsmic.stages.route

FAST = {"t": (3, 5), "widths": (1.5, 2), "n_centers": 40, "n_threads": 1}
"""Options of a fit that is not about scores."""


def cut_small(patch, group=300):
    """Have blocks of input of 256 rows, and groups of so many members."""
    patch.setattr(bigsmic.runtime.context, "SOURCE_BYTES", 1)
    for module in (bigsmic.stages.route, bigsmic.methods.smic.planning):
        patch.setattr(module, "group_rows", lambda n, d: group)


def keep_on_disk(patch):
    """Have plans that allow one task at a time, with basis and kernel on disk, and one LSMI width a pass."""
    plan = bigsmic.methods.smic.planning.plan

    def changed(*args, **options):
        found = plan(*args, **options)
        stages = {name: replace(stage, max_concurrency=1) for name, stage in found.stages.items()}
        return replace(found, stages=stages, n_gammas=1, basis_in_memory=False, kernel_in_memory=False)

    for module in (bigsmic.methods.smic.planning, bigsmic.methods.smic.method):
        patch.setattr(module, "plan", changed)
