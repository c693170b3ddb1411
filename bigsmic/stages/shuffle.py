"""The row blocks that have non-empty parts for each other block, so that empty parts are not opened.

Every block writes parts for all others, most of them empty, as a group has few neighbours in space. Ledger entries list
all parts, so that opening every block from every block would take time that grows with the cube of their number.
"""

from functools import partial

import numpy as np

from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.types import Integers


def senders(job: Job, stage: str, name: str) -> list[Integers]:
    """Blocks with non-empty parts of an array for each row block.

    Parameters
    ----------
    job : Job
    stage : str
        All of its blocks must be done.
    name : str
        Array with a part for every row block.

    Returns
    -------
    senders : list of ndarray of int32
        For each row block, ascending.
    """
    blocks = job.context.blocks
    found = job.map_blocks(f"{stage} sent", blocks, partial(_recipients, stage=stage, name=name))
    sender = np.repeat(np.arange(len(blocks), dtype=np.int32), [len(to) for to in found])
    recipient = np.concatenate(found)
    order = np.argsort(recipient, kind="stable")
    return np.split(sender[order], np.searchsorted(recipient[order], np.arange(1, len(blocks))))


def _recipients(context: Context, p: int, stage: str, name: str) -> Integers:
    """Row blocks for which block p has non-empty parts."""
    return np.flatnonzero(np.diff(context.run.entry(stage, p)["arrays"][name]["bounds"])).astype(np.int32)
