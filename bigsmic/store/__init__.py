"""The only door to Zarr: archives that are read, and the run directory that is written.

``sources`` reads rows in blocks, ``door`` refuses what holds none, ``decoding`` and ``shards`` know what an archive's
metadata say of its numbers and of what is missing; ``run`` keeps a run directory, ``ledger`` seals what it says of
itself, ``checked`` is how users read rows of it, ``lease`` sees to it that one process writes to it, and
``predictions`` writes predictions; ``places`` says whether something may be written where somebody asks for it, and
``temporary`` makes folders that go with their process; below them, ``objects`` is bytes by key, local or behind a URL,
``stores`` retries what a store refuses and says what it refused, and ``shared`` lets a task on another process open
what it needs once.
"""

from bigsmic.store.admission import in_blocks, refuse_unreadable
from bigsmic.store.basis import FileBasis
from bigsmic.store.checked_arrays import CheckedArray
from bigsmic.store.destinations import as_location, lies_in
from bigsmic.store.in_memory import CarriedRun, block_bytes, copy_array, copy_block
from bigsmic.store.objects import absolute, checksum, is_local, remove_tree
from bigsmic.store.predictions import PredictionGroup, digest
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.run import FORMAT_VERSION, Overlay, Run
from bigsmic.store.sources import (
    DaskSource,
    Source,
    SparseRows,
    SparseSource,
    StagedSource,
    ZarrSource,
    create_arrays,
    open_array,
    open_source,
    stage_input,
)
from bigsmic.store.temporary import temporary_folder, temporary_run

__all__ = [
    "FORMAT_VERSION",
    "CarriedRun",
    "CheckedArray",
    "DaskSource",
    "FileBasis",
    "Overlay",
    "PredictionGroup",
    "Run",
    "Source",
    "SparseRows",
    "SparseSource",
    "StagedSource",
    "ZarrSource",
    "absolute",
    "as_location",
    "block_bytes",
    "checksum",
    "copy_array",
    "copy_block",
    "create_arrays",
    "digest",
    "in_blocks",
    "is_local",
    "lies_in",
    "open_array",
    "open_source",
    "refuse_unreadable",
    "remove_tree",
    "scrubbed",
    "shown",
    "stage_input",
    "temporary_folder",
    "temporary_run",
]
