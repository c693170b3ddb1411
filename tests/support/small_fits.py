"""Options and cuts that make a fit take half a second and go through many blocks all the same."""

from dataclasses import replace

import bigsmic.methods.smic.method
import bigsmic.methods.smic.planning
from bigsmic.runtime import block_sizes
from bigsmic.runtime.block_sizes import BlockSizes

FAST = {"t": (3, 5), "widths": (1.5, 2), "n_centers": 40, "n_threads": 1}
"""Options of a fit that is not about scores."""
BRIEF = FAST | {"shrinkage": 0}
"""Of one that is not about its labelings either: half of the eigenproblems."""

SMALL = BlockSizes(source_bytes=1, group_rows=300, tile_bytes=1)
"""Blocks of 256 rows, of the input as of a dense kernel, and groups of 300 members."""


def cut_small(patch, **sizes):
    """Have small blocks in every fit that is given no sizes."""
    patch.setattr(block_sizes, "DEFAULT", replace(SMALL, **sizes))


def keep_on_disk(patch):
    """Have plans that allow one task at a time, with all on disk that may be, and one LSMI width a pass."""
    plan = bigsmic.methods.smic.planning.plan

    def changed(*args, **options):
        found = plan(*args, **options)
        stages = {name: replace(stage, max_concurrency=1) for name, stage in found.stages.items()}
        on_disk = dict.fromkeys(("basis_in_memory", "kernel_in_memory", "vectors_in_memory"), False)
        return replace(found, stages=stages, n_gammas=1, **on_disk)

    for module in (bigsmic.methods.smic.planning, bigsmic.methods.smic.method):
        patch.setattr(module, "plan", changed)
