"""Memory, disk and work of a fit, said before the first task, and what the memory limit makes of them.

Every figure is a function of shape and settings; the limit decides only how many tasks run at once, whether basis
and kernel stay in memory or on disk, and how many LSMI widths share a pass. None of it changes a label.
"""

from dataclasses import dataclass, field

INTERPRETER_BYTES = 300 << 20  # Python with numpy, scipy, numba, scikit-learn and zarr, and allocator slack
EDGES_PER_NEIGHBOR = 1.6  # undirected edges of a t-graph per row and neighbour, seen up to 1.55
GUESTS = 1.8  # copies of a row that routing makes, seen up to 1.7


@dataclass(frozen=True)
class Size:
    """What there is to cluster.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    itemsize : int
        Bytes of an entry as stored.
    band_bytes : int
        Memory that reading the input takes beyond the rows asked for.
    """

    n: int
    d: int
    itemsize: int = 4
    band_bytes: int = 0


@dataclass(frozen=True)
class StagePlan:
    """One stage.

    Parameters
    ----------
    name : str
    tasks : int
        How many there are.
    fixed_bytes : int
        Memory beside the tasks.
    task_bytes : int
        Memory of one task.
    width : int
        Tasks at once.
    flops : float
        Floating-point operations, roughly.
    disk_bytes : int
        What it writes.
    """

    name: str
    tasks: int
    fixed_bytes: int
    task_bytes: int
    width: int = 1
    flops: float = 0.0
    disk_bytes: int = 0

    @property
    def peak_bytes(self):
        """Predicted peak of the process during the stage."""
        return INTERPRETER_BYTES + self.fixed_bytes + self.width * self.task_bytes


@dataclass(frozen=True)
class Plan:
    """How a fit will run.

    Parameters
    ----------
    size : Size
    memory_limit : int
        Bytes that the process may use.
    stages : dict of str to StagePlan
    sample_rows : int
        Rows that the scan draws for the cells.
    n_gammas : int
        LSMI widths per pass.
    basis_in_memory, kernel_in_memory : bool
        Where the eigensolver keeps its basis and the matrix.
    checkpoints : bool
        Whether the eigensolver writes its state at every restart.
    """

    size: Size
    memory_limit: int
    stages: dict[str, StagePlan]
    sample_rows: int
    n_gammas: int
    basis_in_memory: bool
    kernel_in_memory: bool
    checkpoints: bool = True
    notes: tuple[str, ...] = field(default=())

    def width(self, stage):
        """Tasks of a stage at once."""
        return self.stages[stage].width

    @property
    def peak_bytes(self):
        """Predicted peak of the process."""
        return max(stage.peak_bytes for stage in self.stages.values())

    @property
    def disk_bytes(self):
        """Predicted size of the run directory at its largest."""
        return sum(stage.disk_bytes for stage in self.stages.values())


def plan(size, settings, memory_limit=None, n_threads=1, checkpoints=True):
    """Plan a fit.

    Parameters
    ----------
    size : Size
    settings : Settings
        Cut to the number of rows.
    memory_limit : int, optional
        Bytes that the process may use; three quarters of the machine's memory by default.
    n_threads : int
        Tasks at once where memory allows.
    checkpoints : bool
        Whether there is a run directory to resume from.

    Returns
    -------
    plan : Plan

    Raises
    ------
    PlanError
        A stage does not fit even one task at a time; the message says which, and what would do.
    """
    limit = memory_limit or int(0.75 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    figures = _Figures(size, settings)
    room = limit - INTERPRETER_BYTES
    eigen, basis, matrix = _fit_eigen(figures, room, n_threads)
    score, n_gammas = _fit_scores(figures, room, n_threads)
    stages = [figures.scan(), figures.route(), figures.neighbors(), figures.graph(), eigen, figures.assign(), score]
    stages.append(figures.output())
    stages = {stage.name: _widen(stage, room, n_threads) for stage in stages}
    _refuse_what_does_not_fit(stages, limit)
    wanted = sample_rows(size.n, size.d, figures.partition.cell_rows)
    return Plan(size, limit, stages, wanted, n_gammas, basis, matrix, checkpoints)
