"""eigen: the leading eigenvectors of every eigenproblem, by block Lanczos on row blocks, with checkpoints."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bigsmic.errors import CorruptBlockError
from bigsmic.numerics.constraints.operator import LinkedProduct
from bigsmic.numerics.eigen.aggregates import Aggregates
from bigsmic.numerics.eigen.basis import Basis, MemoryBasis, SplitBasis
from bigsmic.numerics.eigen.block_vectors import GroupSpace, KernelProduct, Product, RowSpace
from bigsmic.numerics.eigen.bulk import BulkRule, Spectrum
from bigsmic.numerics.eigen.chebyshev import Filter
from bigsmic.numerics.eigen.lanczos import solve
from bigsmic.numerics.eigen.lanczos_state import LanczosParams, LanczosResult, LanczosState
from bigsmic.numerics.row_blocks import Group, Shard
from bigsmic.runtime.context import Context
from bigsmic.runtime.job import Job
from bigsmic.runtime.planning import Plan
from bigsmic.stages import coarse_start, connectivity, kernel_matrix, links
from bigsmic.stages.labeling_specs import Eigenproblem, eigenproblems, specs_of
from bigsmic.stages.restarts import Restarts, from_stored, n_columns, plain, to_stored
from bigsmic.store import FileBasis
from bigsmic.types import Floats, Integers

TOLERANCE = {"normalized": 1e-4}
DEFAULT_TOLERANCE = 1e-6  # as top vectors of the plain kernel are localised, with many entries near zero


def run(job: Job, steps: Sequence[int] = (), then: int = 0) -> None:
    """Solve every eigenproblem; its matrix is deleted after the solve, weights after local moving.

    Parameters
    ----------
    job : Job
    steps : sequence of int
        Numbers of eigenvectors, ascending, that the fit has begun with: each solve starts from the vectors of the one
        before, and keeps them bit for bit as the first of its own.
    then : int
        Number of eigenvectors that the fit may want later: its solves pause in a state from which they go on to these.
    """
    context, wanted = job.context, eigenproblems(job.context.settings)
    numbers = [*steps, specs_of(context).most_eigenvectors]
    # what each solve goes on to, as when it was made first: an open fit did not know that it would need more
    goes_on = then or (steps and not context.settings.open)
    goals = dict(zip(numbers, [*numbers[1:], then], strict=True)) if goes_on else {}
    for q, eigenproblem in enumerate(wanted):
        n_solved = _n_solved(job, q, eigenproblem)
        todo = [m for m in numbers if m > n_solved]
        if todo and n_solved and _has_lost(job, q, eigenproblem):
            _forget(job, q, eigenproblem)
            todo = numbers
        if todo or not job.complete(kernel_matrix.degree_name(eigenproblem), context.blocks):
            kernel_matrix.prepare(job, eigenproblem)
        if todo:
            kernel_matrix.normalise(job, eigenproblem)
        for m in todo:
            _solve(job, q, eigenproblem, m, goals.get(m, 0))
        if eigenproblem.kernel == "normalized" and eigenproblem.matrix not in [
            later.matrix for later in wanted[q + 1 :]
        ]:
            job.run.drop(kernel_matrix.matrix_name(eigenproblem), context.blocks)


def can_go_on(context: Context) -> bool:
    """Whether solves for more eigenvectors may start from those of the run: they have converged, and are not all known.

    Those of a bulk that ended a solve have not.
    """
    infos = context.run.infos("spectrum", range(len(eigenproblems(context.settings))))
    return all(info["n_converged"] == info["n_wanted"] > info["n_known"] for info in infos)


def _n_solved(job: Job, q: int, eigenproblem: Eigenproblem) -> int:
    """Eigenvectors that the run has."""
    if not (job.run.done("spectrum", q) and job.complete(basis_name(eigenproblem), job.context.blocks)):
        return 0
    return len(job.run.read("spectrum", q, "ritz_values"))


def _has_lost(job: Job, q: int, eigenproblem: Eigenproblem) -> bool:
    """Whether the columns are damaged with which a paused solve would go on."""
    paused = "ahead" in job.run.info("spectrum", q)
    return paused and not job.complete(_ahead_name(eigenproblem), job.context.blocks)


def _forget(job: Job, q: int, eigenproblem: Eigenproblem) -> None:
    """Delete a solve, so that it is done again: another start would give the further eigenvectors other bits."""
    job.run.drop("spectrum", [q])
    job.run.drop(basis_name(eigenproblem), job.context.blocks)


def _solve(job: Job, q: int, eigenproblem: Eigenproblem, n_wanted: int, then: int) -> None:
    """Solve one eigenproblem from known vectors and a warm start, or go on, with checkpoints at restarts."""
    settings = job.context.settings
    params = LanczosParams.suited(
        n_wanted,
        pauses=then > n_wanted,
        tol=TOLERANCE.get(eigenproblem.kernel, DEFAULT_TOLERANCE),
        max_matvecs=settings.max_matvecs,
        bulk=_bulk_rule(job.context, eigenproblem, n_wanted),
    )
    make = partial(StoredRows, eigenproblem=eigenproblem, params=params, plan=job.plan)
    start, kept = _start(job, q, eigenproblem, params), Restarts(job, eigenproblem, n_wanted)
    result = job.run_actors(
        f"eigen {eigenproblem.name}", make, lambda group: _iterate(job, eigenproblem, (params, start, kept), group)
    )
    info = {
        "converged": bool(result.converged),
        "n_wanted": n_wanted,
        "n_converged": int(result.n_converged),
        "n_matvecs": int(result.n_matvecs),
        "n_restarts": int(result.n_restarts),
        "n_known": start.n_exact,
        "n_parts": int(result.n_parts),
        "mean_degree": kernel_matrix.mean_degree(job, eigenproblem),
        "shrinkage": kernel_matrix.shrinkage(job.context, eigenproblem),
        "filter": plain(asdict(result.filter)),
    }
    if start.n_solved:
        info["first"] = {key: value for key, value in job.run.info("spectrum", q).items() if key != "ahead"}
    arrays = {"ritz_values": result.ritz_values, "residual_norms": result.residual_norms}
    if result.further:
        ahead, info["ahead"] = to_stored(result.further)
        arrays |= {f"ahead.{key}": values for key, values in ahead.items()}
    job.run.write("spectrum", q, arrays, info=info)
    if start.state:
        job.run.drop(_ahead_name(eigenproblem), job.context.blocks)
    if job.plan.checkpoints:
        kept.drop()


def _bulk_rule(context: Context, eigenproblem: Eigenproblem, n_wanted: int) -> BulkRule | None:
    """Rule by which a bulk ends the solve; where it begins follows from N, also for the other matrices of its graph."""
    if eigenproblem.kernel != "normalized" or eigenproblem.link_weights is not None:
        return None
    if not eigenproblem.shrinkage:
        return BulkRule()
    solved, graph = eigenproblems(context.settings), eigenproblem.graph
    if graph not in solved[: solved.index(eigenproblem)]:
        return None
    n_parts = _noted(context, solved.index(graph), n_wanted)["n_parts"]
    return BulkRule(n_parts) if n_parts else None


def _noted(context: Context, q: int, n_wanted: int) -> dict[str, Any]:
    """What the solve of an eigenproblem for so many vectors has noted, also if it has gone on to more since."""
    info = context.run.info("spectrum", q)
    while info["n_wanted"] > n_wanted and "first" in info:
        info = info["first"]
    return info


class _Start(NamedTuple):
    """Eigenvectors that a solve starts with, the first columns of its basis.

    Parameters
    ----------
    known : Spectrum
    mass : ndarray of float64
        Degree sums of the components, where the vectors are known from these.
    n_solved : int
        Vectors, where they are from a solve for fewer; else 0.
    n_exact : int
        Vectors that components have given.
    state : LanczosState or None
        In which a solve for fewer has paused.
    """

    known: Spectrum
    mass: Floats
    n_solved: int
    n_exact: int
    state: LanczosState | None = None

    @property
    def verb(self) -> tuple[Any, ...]:
        """Call that writes them."""
        return ("write_solved", self.n_solved) if self.n_solved else ("write_known", self.mass)


def _start(job: Job, q: int, eigenproblem: Eigenproblem, params: LanczosParams) -> _Start:
    """The eigenvectors of a solve for fewer, or those of the components."""
    n_solved = _n_solved(job, q, eigenproblem)
    if not n_solved:
        mass = _component_mass(job, eigenproblem, params)
        return _Start(Spectrum(np.ones(len(mass)), np.zeros(len(mass))), mass, 0, len(mass))
    read, info = job.run.reader("spectrum", q), job.run.info("spectrum", q)
    values, norms = read("ritz_values"), read("residual_norms")
    known = Spectrum(values, norms * np.max(np.abs(values)))
    state = from_stored(lambda key: read(f"ahead.{key}"), info["ahead"]) if "ahead" in info else None
    return _Start(known, np.zeros(0), n_solved, info["n_known"], state)


def _iterate(
    job: Job, eigenproblem: Eigenproblem, wanted: tuple[LanczosParams, _Start, Restarts], group: Group
) -> LanczosResult:
    """Compute the eigenvectors with the actors of a group, and write them, with the columns of a paused solve."""
    context, space = job.context, GroupSpace(group, job.context.n)
    params, start, kept = wanted
    before, n_wanted = _solved_before(context, eigenproblem), params.n_wanted
    state = kept.restore(group)
    space.n_columns = n_columns(state) if state else _begin(group, eigenproblem, start, before, n_wanted)
    state = state or start.state
    name = f"eigen {eigenproblem.name}"
    job.report(name, state.n_locked if state else start.n_solved, n_wanted)

    def on_restart(state: LanczosState) -> None:
        job.report(name, state.n_locked, n_wanted)
        if kept.checkpoints.due:
            kept.save(space, state)

    if len(start.known.values) == n_wanted:
        result = LanczosResult(*start.known, True, n_wanted, 0, 0, Filter())
    else:
        result = solve(
            space,
            params,
            known=start.known,
            warm_filter=_warm_filter(context, before, n_wanted),
            state=state,
            coarse=coarse_start.of(space, eigenproblem, len(start.known.values)),
            on_restart=on_restart,
        )
    ahead = [("write", _ahead_name(eigenproblem), n_wanted, space.n_columns)] if result.further else []
    space.finish(("write", basis_name(eigenproblem), 0, n_wanted), *ahead)
    return result


class StoredRows(RowSpace):
    """Rows of an eigenproblem whose kernel, start and result are in the run directory.

    Parameters
    ----------
    context : Context
    shard : Shard
    eigenproblem : Eigenproblem
    params : LanczosParams
    plan : Plan
        What of the basis, the kernel and other vectors is held in memory.
    """

    def __init__(
        self, context: Context, shard: Shard, eigenproblem: Eigenproblem, params: LanczosParams, plan: Plan
    ) -> None:
        self.context, self.eigenproblem = context, eigenproblem
        # with room for the known vectors and the warm start
        capacity = max(params.size(context.n), 2 * params.n_wanted)
        load = kernel_matrix.loader(context, shard, kernel_matrix.matrix_name(eigenproblem), plan.kernel_in_memory)
        self._load = load
        n_held = len(shard.blocks)
        if not plan.basis_in_memory:
            n_held = _n_that_fit(shard.own_bounds, 4 * params.size(context.n), plan.basis_bytes)
        basis = columns_of(context, shard, basis_name(eigenproblem), capacity, n_held)
        spare = None if plan.vectors_in_memory else spare_columns(context, shard, eigenproblem.name, params.block_width)
        product = product_of(context, shard, eigenproblem, load)
        super().__init__(shard, product, basis, context.settings.seed, spare=spare)

    def close(self) -> None:
        """Delete what is on disk."""
        self.basis.close()
        if self.spare:
            self.spare.close()

    def write_known(self, mass: Floats) -> None:
        """Write the known eigenvectors ``D^1/2 1_component`` of eigenvalue 1 of the normalised kernel."""
        n_known = len(mass)

        def task(p: int) -> None:
            component = connectivity.read_components(self.context, self.eigenproblem.t, p)
            degree = kernel_matrix.read_degree(self.context, self.eigenproblem, p)
            columns = np.zeros((len(degree), n_known), np.float32, order="F")
            inside = np.flatnonzero(component < n_known)
            columns[inside, component[inside]] = np.sqrt(degree[inside] / mass[component[inside]])
            self._write(p, 0, columns)

        self.shard.for_each_block(task)
        self.n_columns = n_known

    def write_solved(self, n_solved: int) -> None:
        """Begin with eigenvectors that the run has."""
        self.n_columns = 0
        self.write_warm_start(basis_name(self.eigenproblem), 0, n_solved)

    def write_warm_start(self, name: str, start: int, stop: int) -> None:
        """Append eigenvectors from a stage, of this or of another eigenproblem."""

        def task(p: int) -> None:
            self._write(p, self.n_columns, self.context.run.read(name, p, "V")[:, start:stop])

        self.shard.for_each_block(task)
        self.n_columns += stop - start

    def width(self) -> int:
        """Number of columns in the basis."""
        return self.n_columns

    def save(self, name: str, start: int, stop: int) -> None:
        """Write columns of the basis to a stage."""
        self.shard.for_each_block(lambda p: self.context.run.write(name, p, {"V": self._read(p, start, stop).T}))

    def restore(self, parts: list[tuple[str, int]], n_columns: int, width: int) -> bool:
        """Read the basis from stages, each given with the first of its columns; False if one is damaged."""

        def task(p: int) -> None:
            for name, start in parts:
                self._write(p, start, self.context.run.read(name, p, "V").T)

        try:
            self.shard.for_each_block(task)
        except CorruptBlockError:
            return False
        self.n_columns = n_columns
        self.reopen(width)
        return True

    def coarsen(self, most: int) -> Any:
        """Make aggregates of about so many groups, and return the number of those of each block."""
        degree = partial(kernel_matrix.read_degree, self.context, self.eigenproblem)
        self._aggregates = Aggregates(self.shard, self._load, degree, most)
        return self._aggregates.counts()

    def aggregate_mass(self, starts: Integers, m: int) -> Any:
        """Number the aggregates, and return their degree sums."""
        self._aggregates.number(starts)
        return self._aggregates.mass(m)

    def aggregate_weights(self, m: int) -> Any:
        """Weights between the aggregates."""
        return self._aggregates.weights(m)

    def write_coarse(self, U: Floats) -> None:
        """Append eigenvectors of the coarse matrix, as approximations."""
        self.shard.for_each_block(lambda p: self._write(p, self.n_columns, self._aggregates.prolonged(p, U)))
        self.n_columns += U.shape[1]

    def drop_aggregates(self) -> None:
        """Free the memory of the aggregates."""
        del self._aggregates

    def write(self, name: str, start: int, stop: int) -> None:
        """Write columns of the basis to a stage, rows first."""

        def task(p: int) -> None:
            self.context.run.write(name, p, {"V": np.ascontiguousarray(self._read(p, start, stop))})

        self.shard.for_each_block(task)


def columns_of(context: Context, shard: Shard, name: str, capacity: int, n_held: int) -> Basis:
    """Storage for columns of the rows of a shard: its first `n_held` blocks in memory, others on the worker's disk.

    Those are in a folder of that name.
    """
    bounds = shard.own_bounds
    if n_held == len(bounds) - 1:
        return MemoryBasis(bounds, capacity)
    rest = FileBasis((shard.scratch or context.run.scratch) / name, bounds[n_held:] - bounds[n_held], capacity)
    return SplitBasis(MemoryBasis(bounds[: n_held + 1], capacity), rest)


def spare_columns(context: Context, shard: Shard, name: str, width: int) -> Basis:
    """Storage on the worker's disk for a second block of vectors of so many columns."""
    return columns_of(context, shard, f"spare.{name}", width, 0)


def _n_that_fit(bounds: Integers, row_bytes: int, n_bytes: int) -> int:
    """First blocks that so many bytes hold."""
    return int(np.searchsorted(bounds[1:] * row_bytes, n_bytes, side="right"))


def product_of(context: Context, shard: Shard, eigenproblem: Eigenproblem, load: Callable[..., Any]) -> Product:
    """Operator of an eigenproblem: the kernel, or U with links."""
    if eigenproblem.link_weights is None:
        return KernelProduct(shard, load)
    return LinkedProduct(
        shard, load, links.coupling(context, eigenproblem, partial(kernel_matrix.degree_at, context, eigenproblem))
    )


def basis_name(eigenproblem: Eigenproblem) -> str:
    """Stage of the eigenvectors."""
    return f"basis.{eigenproblem.name}"


def _ahead_name(eigenproblem: Eigenproblem) -> str:
    """Stage of the further columns of a paused solve."""
    return f"ahead.{eigenproblem.name}"


def _component_mass(job: Job, eigenproblem: Eigenproblem, params: LanczosParams) -> Floats:
    """Degree sums of the largest components, at most as many as wanted vectors; empty for other matrices.

    Rows without any weight, as a given matrix may have, are components of which nothing is known.
    """
    if eigenproblem.kernel != "normalized" or eigenproblem.link_weights is not None or eigenproblem.shrinkage:
        return np.zeros(0)
    i = job.context.settings.t.index(eigenproblem.t)
    n_known = min(job.run.info("repair", i)["after"], params.n_wanted)
    mass: Floats = job.sum_blocks(
        "known vectors", job.context.blocks, partial(_degree_sums, eigenproblem=eigenproblem, n_known=n_known)
    )
    return mass[: np.count_nonzero(mass)]  # components are in the order of their rows: single rows are the last


def _degree_sums(context: Context, p: int, eigenproblem: Eigenproblem, n_known: int) -> NDArray[Any]:
    component = connectivity.read_components(context, eigenproblem.t, p)
    return np.bincount(component, kernel_matrix.read_degree(context, eigenproblem, p), n_known)[:n_known]


def _solved_before(context: Context, eigenproblem: Eigenproblem) -> Eigenproblem | None:
    """The eigenproblem of the same kernel that was solved last, for another t or shrinkage; None if none was."""
    solved = eigenproblems(context.settings)
    before = solved[q - 1] if (q := solved.index(eigenproblem)) else None
    return before if before and before.kernel == eigenproblem.kernel else None


def _warm_filter(context: Context, before: Eigenproblem | None, n_wanted: int) -> Filter | None:
    """The filter of the previous solve; it saves a third on N, but nothing on U, or K, whose spectrum varies with t."""
    if before is None or before.kernel != "normalized" or before.link_weights is not None:
        return None
    return Filter(**_noted(context, eigenproblems(context.settings).index(before), n_wanted)["filter"])


def _begin(group: Group, eigenproblem: Eigenproblem, start: _Start, before: Eigenproblem | None, n_wanted: int) -> int:
    """Write known eigenvectors, and what the solve goes on with; return how many columns there are.

    That is what a paused solve has left, or, for a warm start, further eigenvectors of the eigenproblem before.
    """
    if start.state:
        n_ahead = n_columns(start.state) - start.n_solved
        calls = [("write_warm_start", _ahead_name(eigenproblem), 0, n_ahead), ("reopen", start.state.width)]
    else:
        calls = [] if before is None else [("write_warm_start", basis_name(before), start.n_solved, n_wanted)]
    found: int = group.call(start.verb, *calls, ("width",))[0]
    return found
