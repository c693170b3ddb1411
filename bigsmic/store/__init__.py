"""The only package that imports Zarr: archives that are read, and the run directory that is written.

Input: ``sources`` reads rows in blocks, ``admission`` refuses objects that are no array of rows, ``decoding`` converts
stored numbers as the archive's metadata ask, ``shards`` finds chunks that are missing within shards, and
``side_inputs`` reads auxiliary per-row arrays.

The run directory: ``run_group`` opens and locks it, ``blocks`` writes and reads arrays of blocks, ``run`` adds the
arrays for its user, ``overlay`` reads through to another run; ``ledger`` seals ledger entries with checksums, ``lease``
lets one process write, ``checked_arrays`` checks rows when they are read, ``basis`` keeps an eigensolver's basis on
disk, ``held`` keeps small temporary runs in memory, and ``in_memory`` carries a run in a pickle.

Output: ``predictions`` writes predictions, ``destinations`` says whether a location may be written to, ``new_places``
makes files and folders that are whole or absent, ``work_folder`` is a folder in which one process at a time works,
``table`` is a table that grows row by row, ``written_file`` writes a file that may replace an earlier one, and
``temporary`` makes folders that are deleted with their process (``processes`` tells whether it still runs).

Below them: ``objects`` is bytes by key, local or behind a URL, ``retrying`` repeats requests after transient errors,
``redaction`` keeps secrets out of messages, and ``reopenable`` lets a task on another process open what it needs once.
"""

from bigsmic.store.admission import in_blocks, is_dask_frame, refuse_unreadable
from bigsmic.store.basis import FileBasis
from bigsmic.store.checked_arrays import CheckedArray
from bigsmic.store.destinations import as_location, lies_in
from bigsmic.store.held import HELD_BYTES
from bigsmic.store.in_memory import CarriedRun, block_bytes, copy_array, copy_block
from bigsmic.store.new_places import new_place
from bigsmic.store.objects import FULL, READ_ONLY, absolute, checksum, is_local, remove_tree, remove_unfinished
from bigsmic.store.overlay import Overlay
from bigsmic.store.predictions import PredictionGroup, digest, write_rows
from bigsmic.store.recordings import Recording, Times, open_recordings
from bigsmic.store.redaction import scrubbed, shown
from bigsmic.store.run import Run
from bigsmic.store.run_group import AT_THE_END, FORMAT_VERSION
from bigsmic.store.sources.base import Source
from bigsmic.store.sources.column_names import names_of
from bigsmic.store.sources.dask_arrays import DaskSource
from bigsmic.store.sources.opening import open_source
from bigsmic.store.sources.selected import SelectedSource, range_of, select_rows
from bigsmic.store.sources.sparse import SparseRows, SparseSource, canonical_csr, check_real_entries
from bigsmic.store.sources.staged import StagedSource, stage_input
from bigsmic.store.sources.zarr_arrays import ZarrSource, create_arrays, open_array, open_group
from bigsmic.store.table import Table
from bigsmic.store.temporary import temporary_folder, temporary_run
from bigsmic.store.window_group import WindowGroup
from bigsmic.store.work_folder import WorkFolder, refuse_unwritable
from bigsmic.store.written_file import WrittenFile

__all__ = [
    "AT_THE_END",
    "FORMAT_VERSION",
    "FULL",
    "HELD_BYTES",
    "READ_ONLY",
    "CarriedRun",
    "CheckedArray",
    "DaskSource",
    "FileBasis",
    "Overlay",
    "PredictionGroup",
    "Recording",
    "Run",
    "SelectedSource",
    "Source",
    "SparseRows",
    "SparseSource",
    "StagedSource",
    "Table",
    "Times",
    "WindowGroup",
    "WorkFolder",
    "WrittenFile",
    "ZarrSource",
    "absolute",
    "as_location",
    "block_bytes",
    "canonical_csr",
    "check_real_entries",
    "checksum",
    "copy_array",
    "copy_block",
    "create_arrays",
    "digest",
    "in_blocks",
    "is_dask_frame",
    "is_local",
    "lies_in",
    "names_of",
    "new_place",
    "open_array",
    "open_group",
    "open_recordings",
    "open_source",
    "range_of",
    "refuse_unreadable",
    "refuse_unwritable",
    "remove_tree",
    "remove_unfinished",
    "scrubbed",
    "select_rows",
    "shown",
    "stage_input",
    "temporary_folder",
    "temporary_run",
    "write_rows",
]
