"""Memory, disk and work of a SMIC fit, stage by stage."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bigsmic.numerics.eigen.lanczos_state import LanczosParams
from bigsmic.numerics.graph import cells, neighbor_graph, neighbors
from bigsmic.numerics.labeling.groups import N_AXES, SAMPLE_ROWS
from bigsmic.numerics.labeling.local_moving import N_SWEEPS
from bigsmic.numerics.mutual_information.gaussian_basis import GAMMA_MULTIPLES, PAPER_GAMMAS
from bigsmic.numerics.mutual_information.lsmi_sums import sums_bytes, tile_bytes
from bigsmic.runtime import planning
from bigsmic.runtime.context import BLOCK_CACHE_BYTES
from bigsmic.runtime.planning import (
    EDGES_PER_NEIGHBOR,
    GHOSTS,
    HELD,
    Plan,
    Size,
    StagePlan,
    building_bytes,
    lent_rows,
    limit_of,
    scan_stage,
    widened,
)
from bigsmic.settings.sequences import FINE_SET
from bigsmic.stages.coarse_start import coarse_bytes
from bigsmic.stages.labeling_specs import FINEST_CUT, LabelingSpecs, eigenproblems, valley_columns
from bigsmic.stages.labelings import TILE_ROWS, gram_batches
from bigsmic.stages.link_scores import N_TAKEN
from bigsmic.stages.scan import sample_rows

FILLED = 0.97
"""Share of the memory limit up to which a basis on disk is held in memory: a process has slightly more than is planned,
10,000,000 rows by .4 % of 8 GiB where all was filled."""
SCANNED_ENTRY_BYTES = 72  # of an entry of a given matrix: row, column and value, when they are sorted
PLACES = ((True, True, True), (False, True, True), (False, False, True), (False, False, False))
"""Whether basis, matrix and vectors between products are in memory, from the fastest choice to the smallest one."""
VALLEY_BYTES = 2 << 20  # of pairs of groups under test, and of compiled code
CONSENSUS_MATRICES = 4  # of every two labels at once: shared rows, those of one set, their means and ratios
CONSENSUS_CUTS = 8  # until the requested number of clusters win rows; seldom more
LINK_PASSES = 5  # labels of linked rows, those predicted by neighbours, and rows during propagation
REMEDIES = dict.fromkeys(("neighbors", "graph"), "ask for fewer neighbours")
REMEDIES |= dict.fromkeys(
    ("eigen", "assign", "valleys", "select", "output"), "ask for fewer clusters, candidates or neighbours"
)
ORDER = ("scan", "route", "neighbors", "graph", "eigen", "assign", "valleys", "select", "output")


def plan(
    size: Size, settings: Any, memory_limit: int | None = None, n_threads: int = 1, checkpoints: bool = True
) -> planning.Plan:
    """Plan a fit.

    Parameters
    ----------
    size : Size
    settings : Settings
        Reduced to what the number of rows allows.
    memory_limit : int, optional
        Bytes that the process may use; three quarters of :func:`bigsmic.engines.memory.machine_memory` by default.
    n_threads : int
        Largest number of concurrent tasks.
    checkpoints : bool
        Whether there is a run directory to resume from.

    Returns
    -------
    plan : Plan

    Raises
    ------
    PlanError
        A stage does not fit even with one task at a time; the message names the stage and the remedy.
    """
    found = described(size, settings, memory_limit, n_threads, checkpoints)
    return replace(found, stages=widened(found.stages.values(), found.memory_limit, n_threads))


def described(
    size: Size, settings: Any, memory_limit: int | None = None, n_threads: int = 1, checkpoints: bool = True
) -> planning.Plan:
    """Plan with one task at a time, which may not fit: methods with other stages replace those that they lack.

    Parameters are those of :func:`plan`.
    """
    limit = limit_of(memory_limit)
    figures = (_GraphFigures if size.graph else _Figures)(size, settings, n_threads)
    beside = figures.input_bytes
    stages = {"scan": figures.scan()}
    basis = matrix = vectors = True
    basis_bytes, n_gammas = 0, 1
    if settings.n_clusters > 1:
        eigen, assign, basis, matrix, vectors, *_ = _largest_that_fits(limit - beside, figures.eigen_choices())
        if not basis:
            basis_bytes = figures.room_for_basis(eigen, limit - beside)
            eigen = replace(eigen, fixed_bytes=eigen.fixed_bytes + basis_bytes)
        select, n_gammas = _largest_that_fits(limit - beside, figures.select_choices(matrix))
        if figures.valley_columns:
            stages["valleys"] = figures.valleys(matrix)
        stages |= {stage.name: stage for stage in (*figures.until_graph(), eigen, assign, select)}
    stages["output"] = figures.output(matrix)
    stages = {name: replace(stages[name], remedy=REMEDIES.get(name, "")) for name in ORDER if name in stages}
    stages = {name: replace(stage, fixed_bytes=stage.fixed_bytes + beside) for name, stage in stages.items()}
    return Plan(
        size,
        limit,
        stages,
        sample_rows=figures.wanted,
        n_gammas=n_gammas,
        basis_in_memory=basis,
        kernel_in_memory=matrix,
        vectors_in_memory=vectors,
        basis_bytes=basis_bytes,
        checkpoints=checkpoints,
    )


def plan_fit(
    size: Size, settings: Any, memory_limit: int | None = None, n_threads: int = 1, checkpoints: bool = True
) -> planning.Plan:
    """Plan a fit, as :func:`plan`.

    If the number of clusters is open, the plan also has room for all labelings of the number that may be found.
    """
    plan_one = partial(plan, size, memory_limit=memory_limit, n_threads=n_threads, checkpoints=checkpoints)
    return planning.joined([plan_one(part) for part in (settings, *disputed_settings(settings, size.n))], (), n_threads)


def disputed_settings(settings: Any, n: int) -> list[Any]:
    """Settings for all labelings of two numbers of clusters between which one that was left open is found.

    Of the first and of all larger ones, the widest labelings have all columns that the fit reads; the second is the
    largest. Empty if the number was given, or if the rows do not allow to find it.
    """
    n_columns = valley_columns(settings, n) if settings.undecided else 0
    widest = max(max(factors) for factors in settings.widths if factors != FINE_SET)
    numbers = (max(2, int(n_columns / widest)), n_columns) if n_columns else ()
    return [replace(settings, columns_read=n_columns).decided(c, disputed=True) for c in numbers]


class _Figures:
    """Memory, disk and work of each stage, from shape and settings."""

    input_bytes = 0
    """Of input that is in memory during all stages."""

    def __init__(self, size: Size, settings: Any, n_threads: int) -> None:
        self.size, self.settings, self.n_threads = size, settings, n_threads
        n, d = size.n, size.d
        self.n_features = settings.n_features(d)
        self.row_bytes = 4 * self.n_features
        self.source_rows = int(size.source_bounds[1])
        self.n_source = len(size.source_bounds) - 1
        self.partition = size.block_sizes.partition(n, d)
        members = min(self.partition.group_rows, int(GHOSTS * n) + 1)
        self.members, self.n_groups = members, max(1, round(GHOSTS * n / members))
        self.block_rows = min(n, -(-2 * n // self.n_groups)) if self.n_groups > 1 else n
        self.wanted = sample_rows(n, d, self.partition.cell_rows)
        self.t_max, self.k = max(settings.t), settings.n_neighbors
        self.entries_of_t, self.entries = EDGES_PER_NEIGHBOR * self.t_max, EDGES_PER_NEIGHBOR * self.k
        self.crowding = 1.0  # entries of the block that has most, over those of an average one
        self.n_eigenproblems = len(eigenproblems(settings))
        self.specs = LabelingSpecs(settings, n)
        self.n_candidates = len(self.specs)
        self.n_scored = 2 if settings.reports_lsmi else len(self.specs.candidates)
        self.valley_columns = valley_columns(settings, n)
        self.c = settings.n_clusters
        self.links = settings.link_weights != (None,)
        self.params = LanczosParams.suited(self.specs.most_eigenvectors)

    def scan(self) -> StagePlan:
        """The scan, which draws the sample."""
        return scan_stage(self.size, self.wanted)

    def until_graph(self) -> tuple[StagePlan, ...]:
        """The stages that make the graph of scanned rows."""
        return self.route(), self.neighbors(), self.graph()

    def route(self) -> StagePlan:
        """A block of input, scaled, and its routed rows twice; the sample for axes and cells."""
        n, d, features = self.size.n, self.size.d, self.n_features
        n_cells = max(1, n // self.partition.cell_rows)
        r = self.partition.overlap
        block = self.source_rows * (d * (self.size.itemsize + 4) + 2 * GHOSTS * (self.row_bytes + 4 * r + 12))
        task = block + cells.route_bytes(self.source_rows, features, n_cells, r)
        fixed = self.size.band_bytes + 3 * self.wanted * 4 * d
        disk = int(n * GHOSTS * (self.row_bytes + 4 * (r + 3)))
        flops = 2.0 * n * features * (24 * math.sqrt(n_cells) + d * (features < d))
        return StagePlan("route", self.n_source, fixed, int(task), flops=flops, disk_bytes=disk, passes=2)

    def neighbors(self) -> StagePlan:
        """All members of one group with their lists; on disk, what these take beyond the later graph."""
        n, features, k = self.size.n, self.n_features, self.settings.n_candidates
        r = self.partition.overlap
        task = self.members * (self.row_bytes + 4 * (r + 3) + 24) + neighbors.group_bytes(self.members, features, k)
        flops = 2.0 * n * features * self.partition.candidates
        searched = max(0, int((GHOSTS + 1) * n * k * 8) - self._graph_on_disk())
        disk = n * (self.row_bytes + 12 + 8 * self.k) + searched
        return StagePlan("neighbors", 4 * self.n_groups, 0, int(task), flops=flops, disk_bytes=disk, passes=6)

    def _graph_on_disk(self) -> int:
        """Bytes of the graph and its edges, which are not there before the lists of a search by group are gone."""
        n = self.size.n
        return int(n * (self.entries * 10 + 12 * len(self.settings.t) + 8) + 0.6 * n * self.k * 22)

    def graph(self) -> StagePlan:
        """Lists of a block, its edges in three states of assembly; one forest for every t."""
        n = self.size.n
        task = neighbor_graph.assembly_bytes(self.block_rows, self.k, self.entries)
        disk = self._graph_on_disk()
        fixed = n * 4 * len(self.settings.t)
        return StagePlan(
            "graph", 2 * self.n_groups + 1, fixed, int(task), disk_bytes=disk, passes=4 + 4 * len(self.settings.t)
        )

    def eigen_choices(self) -> Iterator[tuple[Any, ...]]:
        """Plans of the eigensolver, and of the later stages in whose memory the matrix then is, the fastest first.

        A byte of the matrix is read once a product, which is five times as often as one of the basis. Of vectors on
        disk, four are read or written for each that is multiplied.

        Yields
        ------
        eigen, assign : StagePlan
        basis, matrix, vectors : bool
            Which of these are in memory: one of :data:`PLACES`.
        *others : StagePlan
            Of labelings by valleys, if there are any, of the selection with the least memory, and of the output.
        """
        n, held = self.size.n, self.size.held_rows
        entries, matrix_bytes = n * self.entries_of_t, self._matrix_bytes()
        looked_up = min(8 * n, BLOCK_CACHE_BYTES + 8 * self.block_rows)  # degrees of neighbours, read with their blocks
        building = self._building_bytes() + looked_up
        products = self.params.matvec_limit / 8  # seldom more than an eighth of the limit
        m = self.params.size(n)
        flops = self.n_eigenproblems * products * (2 * entries + 6.0 * n * m)
        disk = int(self.n_eigenproblems * 4 * n * self._columns_kept() + matrix_bytes)
        for basis, matrix, vectors in PLACES:
            fixed = held * (basis * 4 * m + 12) + matrix * matrix_bytes * held // n
            # vectors that are multiplied, those before, with links those between two products, and what workers send
            n_blocks = 1 + vectors + self.links + (1 + self.links) * (self.size.n_workers > 1)
            fixed += (held + self._further_rows()) * 4 * n_blocks * self.params.block_width
            task = 0 if matrix else int(self.crowding * matrix_bytes * self.block_rows / n)
            task += 0 if basis else 2 * 4 * m * self.block_rows  # columns that are read, and their transformation
            task += 4 * self.params.block_width * self.block_rows * (2 if vectors else 4)
            on_disk = disk + (0 if basis else 4 * n * m) + (0 if vectors else 4 * n * self.params.block_width)
            task = int(max(task, building, coarse_bytes(n, self.params.n_wanted)))
            stage = StagePlan("eigen", self.n_groups, int(fixed), task, flops=flops, disk_bytes=on_disk)
            sent = int(self.n_eigenproblems * products * 4 * lent_rows(self.size.n, self.size.n_workers))
            stage = replace(stage, passes=4 * self.n_eigenproblems, traffic_bytes=sent)
            others = [self.valleys(matrix)] if self.valley_columns else []
            *_, (select, _) = self.select_choices(matrix)
            yield stage, self._assign(matrix), basis, matrix, vectors, *others, select, self.output(matrix)

    def _columns_kept(self) -> int:
        """Columns of an eigenproblem on disk: eigenvectors, and those with which a solve for more goes on."""
        first = LanczosParams.suited(self.valley_columns or self.params.n_wanted)
        if first.n_wanted == self.params.n_wanted or not getattr(self.settings, "begins_with_valleys", False):
            return self.params.n_wanted
        return self.params.n_wanted + first.n_retained(self.size.n) + first.block_width - first.n_wanted

    def room_for_basis(self, eigen: StagePlan, limit: int) -> int:
        """Bytes of a basis on disk that memory has room for beside the tasks that may run at once."""
        left = int(FILLED * limit) - replace(eigen, max_concurrency=self.n_threads).peak_bytes
        return max(0, min(left, 4 * self.size.held_rows * self.params.size(self.size.n)))

    def _further_rows(self) -> int:
        """Rows of others that a worker of many needs, beyond those that `held_rows` counts."""
        n, n_workers = self.size.n, self.size.n_workers
        return max(0, lent_rows(n, n_workers) - int((HELD - 1) * n)) // n_workers

    def _matrix_bytes(self) -> int:
        return int(self.size.n * (8 * self.entries_of_t + 8))

    def _building_bytes(self) -> float:
        """For building the kernel of one block."""
        return building_bytes(self.block_rows, self.k, self.t_max)

    def _tile_bytes(self) -> int:
        """Posteriors over all columns and over the clusters, with their operands."""
        return min(TILE_ROWS, self.block_rows) * 24 * (self.params.n_wanted + self.c)

    def _assign(self, kernel_in_memory: bool) -> StagePlan:
        """The basis of one block, posteriors of a tile; labels, degrees and weights of all rows that move."""
        n, held = self.size.n, self.size.held_rows
        in_memory = self._matrix_bytes() * held // n if kernel_in_memory else 0
        task = self.block_rows * (4 * self.params.n_wanted + 12 * self.n_candidates) + self._tile_bytes()
        disk = 4 * n * self.n_candidates
        n_grams = len(list(gram_batches([spec for spec in self.specs if spec.assignment == "merge"])))
        passes = 2 + 6 * self.n_eigenproblems + n_grams
        fixed = held * self._moving_row_bytes() + in_memory
        sent = N_SWEEPS * self.n_candidates * self._label_bytes() * lent_rows(self.size.n, self.size.n_workers)
        stage = StagePlan("assign", self.n_groups, fixed, int(task), disk_bytes=disk, passes=passes)
        return replace(stage, traffic_bytes=sent)

    def _label_bytes(self) -> int:
        return np.min_scalar_type(-max(spec.n_eigenvectors for spec in self.specs)).itemsize

    def _moving_row_bytes(self) -> int:
        """Of a row: degree, number, a labeling that adopts; labels of all that move at once, before and after a sweep.

        On a cluster there is a third copy, with the labels of others.
        """
        at_once = max(Counter((spec.eigenproblem, spec.assignment == "valleys") for spec in self.specs).values())
        return 24 + (2 if self.size.n_workers == 1 else 3) * at_once * self._label_bytes()

    def valleys(self, kernel_in_memory: bool) -> StagePlan:
        """Labels of all rows under the merged labelings, then samples of all groups, and sums over groups."""
        held, m, r = self.size.held_rows, self.valley_columns, min(N_AXES, self.n_features)
        in_memory = self._matrix_bytes() * held // self.size.n if kernel_in_memory else 0
        n_sources = self.n_eigenproblems
        sums = n_sources * m * 8 * (r * (r + 1) + m)
        n_trees = n_sources * (1 + self.links)  # with links, the groups are merged without them, too
        sample = (n_trees + 2) * min(self.size.n, m * SAMPLE_ROWS) * (4 * r + 12)
        depth = math.ceil(math.log2(max(2, self.n_groups)))
        labels = held * n_sources * (4 if self.size.n_workers == 1 else 8) + in_memory  # freed before rows are drawn
        forest = 4 * self.size.n  # of dense parts
        fixed = VALLEY_BYTES + max(labels, (depth + 1) * sums + sample + forest)
        task = self.block_rows * (self.row_bytes + 8 * r + 8 * n_sources) + sums
        disk = 4 * r * self.size.n
        return StagePlan("valleys", self.n_groups, int(fixed), int(task), disk_bytes=disk, passes=2 + 2 * n_sources)

    def select_choices(self, kernel_in_memory: bool) -> Iterator[tuple[StagePlan, int]]:
        """Plans of the selection, and LSMI widths per pass: first with all of them, then with fewer and fewer.

        What needs most memory counts: first the rows that every two labels of all labelings share, as partial sums, and
        the matrices of a consensus; then kernel and labels of all rows, by which it is rated; then the sums of LSMI.
        """
        settings, n = self.settings, self.size.n
        votes, rated, shared = self._consensus_bytes(kernel_in_memory)
        b, drawn = settings.n_centers, settings.n_lsmi_rows(n)
        rows = self.block_rows * drawn // n
        n_gammas = len(PAPER_GAMMAS) if settings.preset == "paper" else len(GAMMA_MULTIPLES)
        work = tile_bytes(b, self.n_features, self.n_scored, 4) + rows * (2 * self.row_bytes + 8 * self.n_candidates)
        work += self.block_rows * self.row_bytes
        depth = math.ceil(math.log2(max(2, self.n_groups)))
        for gammas in range(n_gammas, 0, -1):
            sums = sums_bytes(b, gammas, 5, self.n_scored, self.c)
            flops = 2.0 * drawn * b * (b / 2 + self.n_scored) * n_gammas
            # the term that each task computes, partial sums waiting in the tree, and one being added
            stage = StagePlan(
                "select",
                self.n_groups,
                int(max((depth + 1) * max(sums, shared), (CONSENSUS_MATRICES - 1) * shared, rated)),
                int(max(votes, work + sums, shared)),
                flops=flops,
            )
            passes = 3 + CONSENSUS_CUTS + -(-n_gammas // gammas) + LINK_PASSES * self.links
            yield replace(stage, passes=passes), gammas

    def _consensus_bytes(self, kernel_in_memory: bool) -> tuple[int, int, int]:
        """Bytes of a block's labels and votes, of what rates labelings of all rows, and of rows that labels share."""
        votes = self.block_rows * (12 * self.n_candidates + 4 * FINEST_CUT * self.c)
        held = self.size.held_rows
        rated = 16 * held + (self._matrix_bytes() * held // self.size.n if kernel_in_memory else 0)
        return votes, rated, 8 * (self.n_candidates * self.c) ** 2

    def output(self, kernel_in_memory: bool) -> StagePlan:
        """Final posteriors of a block, its kernel, and its rows in input order; with links, the extension of U."""
        n, c, held = self.size.n, self.c, self.size.held_rows
        block = self.block_rows * (4 * self.params.n_wanted + 32 * c + 24) + self._tile_bytes()
        task = max(block, self.source_rows * (16 * c + 24))
        disk, passes = 8 * n * (c + 1), 2
        if self.settings.knows_shapes:  # neighbours may vote
            voting = self._building_bytes() + 16 * TILE_ROWS * (c + 2 * self.t_max)
            task, disk, passes = max(task, voting), disk + n * (4 * c + 9), passes + 2
        stage = StagePlan("output", self.n_groups + self.n_source, 0, int(task), disk_bytes=disk, passes=passes)
        if self.settings.finds_noise:
            sample = 4 * 13 * min(n, c * SAMPLE_ROWS)  # in parts, whole, and by cluster
            stage = replace(stage, fixed_bytes=sample, disk_bytes=stage.disk_bytes + 8 * n, passes=passes + 2)
        if not self.links:
            return stage
        extended = held * 4 * (self.params.n_wanted + 5 * self.params.block_width)
        in_memory = self._matrix_bytes() * held // n if kernel_in_memory else 0
        disk = stage.disk_bytes + N_TAKEN * 4 * n * self.params.n_wanted
        return replace(stage, fixed_bytes=extended + in_memory, disk_bytes=disk, passes=2 + 3 * N_TAKEN)


class _GraphFigures(_Figures):
    """The same for a graph in place of rows: its matrix stays in memory, and blocks are ranges of rows."""

    def __init__(self, size: Size, settings: Any, n_threads: int) -> None:
        super().__init__(size, settings, n_threads)
        assert size.graph is not None
        self.given = size.graph
        self.input_bytes = self.given.matrix_bytes if size.n_workers == 1 else 0  # else the client has it
        self.wanted, self.n_groups, self.block_rows = 0, self.n_source, self.source_rows
        of_row = self.given.entries / size.n
        self.crowding = max(1.0, self.given.block_entries / max(1.0, of_row * self.block_rows))
        self.is_affinity = settings.kernel == "precomputed"
        if self.is_affinity:  # every entry is of the graph
            self.entries_of_t = self.entries = of_row
        else:  # each end of an edge may list the other one
            self.entries_of_t, self.entries = (2 * min(k, of_row) for k in (self.t_max, self.k))

    def scan(self) -> StagePlan:
        """A block of the matrix, checked and sorted or transformed; signatures of all rows."""
        task = int(SCANNED_ENTRY_BYTES * self.given.block_entries) + self.block_rows * 12 * self.k
        fixed = 24 * self.size.n
        disk = self._graph_on_disk() if self.is_affinity else 12 * self.size.n * self.k
        return StagePlan("scan", self.n_source, fixed, task, flops=6.0 * self.given.entries, disk_bytes=disk, passes=4)

    def until_graph(self) -> tuple[StagePlan, ...]:
        """The graph of distances; that of affinities is there after the scan, without its components."""
        stage = self.graph()
        return (replace(stage, task_bytes=0, disk_bytes=0) if self.is_affinity else stage,)

    def _building_bytes(self) -> float:
        return self.crowding * self.block_rows * (20 * self.entries + 40 * self.entries_of_t)

    def select_choices(self, kernel_in_memory: bool) -> Iterator[tuple[StagePlan, int]]:
        """The only one, as LSMI needs features."""
        votes, rated, shared = self._consensus_bytes(kernel_in_memory)
        depth = math.ceil(math.log2(max(2, self.n_groups)))
        fixed = max((depth + 1) * shared, (CONSENSUS_MATRICES - 1) * shared, rated)
        yield StagePlan("select", self.n_groups, fixed, max(votes, shared), passes=3 + CONSENSUS_CUTS), 1


def _largest_that_fits(limit: int, choices: Any) -> Any:
    """The first choice whose stages fit with one task at a time; the last one if none does."""
    for choice in choices:
        if all(part.peak_bytes <= limit for part in choice if isinstance(part, StagePlan)):
            break
    return choice
