"""eigen: the top eigenvectors of every problem, by block Lanczos on row blocks; resumed at the last restart."""

from dataclasses import asdict

import numpy as np

from bigsmic import lanczos
from bigsmic.candidates import problems
from bigsmic.context import Job
from bigsmic.engine import Narrowed
from bigsmic.errors import CorruptBlockError
from bigsmic.krylov import MemoryBasis, RowSpace
from bigsmic.stages import matrix, repair
from bigsmic.store import FileBasis

TOLERANCE = {"normalized": 1e-4}
STATE_ARRAYS = ("images", "norms", "locked_values", "locked_norms")
DEFAULT_TOLERANCE = 1e-6  # top vectors of the plain kernel are localised: many entries are near zero


def run(job: Job):
    """Solve what is not solved; the matrix of a problem lasts as long as its solve, its weights until the moves."""
    context = job.context
    for q, problem in enumerate(problems(context.settings)):
        solved = job.run.done("spectrum", q) and job.complete(f"basis.{problem.name}", context.blocks)
        if not solved or not job.complete(matrix.degree_name(problem), context.blocks):
            matrix.prepare(job, problem)
        if not solved:
            matrix.normalise(job, problem)
            _Solve(job, q, problem).run()
            if problem.kernel == "normalized":
                job.run.drop(matrix.matrix_name(problem), context.blocks)


class _Solve:
    """One eigenproblem: known vectors and warm start in, eigenvectors out, a checkpoint at every restart."""

    def __init__(self, job: Job, q: int, problem):
        self.job, self.context, self.q, self.problem = job, job.context, q, problem
        settings = self.context.settings
        self.params = lanczos.LanczosParams(
            n_wanted=self.context.n_vectors,
            tol=TOLERANCE.get(problem.kernel, DEFAULT_TOLERANCE),
            max_matvecs=settings.max_matvecs,
        )
        self.checkpoints = _Checkpoints(job, problem) if job.plan.checkpoints else None
        self.basis = self._new_basis()

    def run(self):
        """Solve and write; the basis on disk goes whatever happens."""
        try:
            n_known = self._write_known()
            if n_known == self.params.n_wanted:
                result = lanczos.LanczosResult(
                    np.ones(n_known), np.zeros(n_known), True, n_known, 0, 0, lanczos.Filter()
                )
            else:
                result = self._iterate(n_known)
            self._write(result, n_known)
        finally:
            if isinstance(self.basis, FileBasis):
                self.basis.close()

    def _new_basis(self):
        bounds, capacity = self.context.layout.bounds, self._capacity()
        if self.job.plan.basis_in_memory:
            return MemoryBasis(bounds, capacity)
        return FileBasis(self.context.run.scratch / f"basis.{self.problem.name}", bounds, capacity)

    def _capacity(self):
        """Columns of the basis, or of the known vectors and the warm start that it begins with."""
        return max(self.params.size(self.context.n), 2 * self.params.n_wanted)

    def _iterate(self, n_known):
        stored = self.checkpoints.load(self.basis) if self.checkpoints else None
        n_columns = _columns(stored) if stored else n_known + self._write_warm_start(n_known)
        engine = Narrowed(self.job.engine, self.job.plan.width("eigen"))
        load = matrix.loader(self.job, matrix.matrix_name(self.problem))
        space = RowSpace(engine, load, self.basis, self.context.settings.seed, n_columns)
        if stored is not None:
            space.reopen(stored.width)

        def on_restart(state):
            if self.job.progress is not None:
                self.job.progress(f"eigen {self.problem.name}", state.n_locked, self.params.n_wanted)
            if self.checkpoints:
                self.checkpoints.save(self.basis, state)

        return lanczos.solve(
            space,
            self.params,
            known_values=np.ones(n_known),
            warm_filter=self._warm_filter(),
            state=stored,
            on_restart=on_restart,
        )

    def _write_known(self):
        """Eigenvalue 1 of the normalised kernel has ``D^1/2 1_component`` for its vectors: the largest ones."""
        if self.problem.kernel != "normalized":
            return 0
        t, bounds = self.problem.t, self.context.layout.bounds
        n_components = self.context.run.info("repair", self.context.settings.t.index(t))["after"]
        n_known = min(n_components, self.params.n_wanted)
        degree = matrix.read_degree(self.context, self.problem)
        labels = [repair.read_components(self.context, t, p) for p in self.context.blocks]
        blocks = [degree[bounds[p] : bounds[p + 1]] for p in self.context.blocks]
        masses = [np.bincount(of, d, n_known)[:n_known] for of, d in zip(labels, blocks, strict=True)]
        mass = np.sum(masses, axis=0)
        for p in self.context.blocks:
            columns = np.zeros((len(blocks[p]), n_known), np.float32, order="F")
            inside = np.flatnonzero(labels[p] < n_known)
            columns[inside, labels[p][inside]] = np.sqrt(blocks[p][inside] / mass[labels[p][inside]])
            self.basis.write(p, 0, columns)
        return n_known

    def _write_warm_start(self, start):
        """Eigenvectors for the t before, where there is one; return their number."""
        if self._before() is None:
            return 0
        name = problems(self.context.settings)[self._before()].name
        for p in self.context.blocks:
            V = self.context.run.read(f"basis.{name}", p, "V")
            self.basis.write(p, start, V)
        return V.shape[1]

    def _before(self):
        """Number of the problem of the same kernel that was solved last; None if this is the first."""
        kernels = [problem.kernel for problem in problems(self.context.settings)[: self.q]]
        return self.q - 1 if kernels and kernels[-1] == self.problem.kernel else None

    def _warm_filter(self):
        """The filter of the problem before: worth a third on N, nothing on K, whose spectrum moves with t."""
        if self._before() is None or self.problem.kernel != "normalized":
            return None
        return lanczos.Filter(**self.context.run.info("spectrum", self._before())["filter"])

    def _write(self, result, n_known):
        for p in self.context.blocks:
            V = np.ascontiguousarray(self.basis.read(p, 0, self.params.n_wanted))
            self.context.run.write(f"basis.{self.problem.name}", p, {"V": V})
        info = {
            "converged": bool(result.converged),
            "n_converged": int(result.n_converged),
            "n_matvecs": int(result.n_matvecs),
            "n_restarts": int(result.n_restarts),
            "n_known": int(n_known),
            "filter": _plain(asdict(result.filter)),
        }
        arrays = {"ritz_values": result.ritz_values, "residual_norms": result.residual_norms}
        self.context.run.write("spectrum", self.q, arrays, info=info)
        if self.checkpoints:
            self.checkpoints.drop()


def _plain(fields):
    """Numbers as JSON takes them."""
    plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in fields.items()}
    return {key: _plain(value) if isinstance(value, dict) else value for key, value in plain.items()}


def _columns(state):
    """Columns of the basis that belong to a state."""
    return state.n_locked + len(state.images) + state.width


class _Checkpoints:
    """Basis and state at the last restart, in two generations: one is whole while the other is written."""

    def __init__(self, job: Job, problem):
        self.job, self.run = job, job.run
        self.blocks = job.context.blocks
        self.state_block = len(self.blocks)
        self.names = [f"restart.{problem.name}.{generation}" for generation in (0, 1)]

    def save(self, basis, state):
        """Write one generation, its state last."""
        name = self.names[state.n_restarts % 2]
        self.run.forget(name, self.state_block)
        width = _columns(state)
        self.job.engine.each(lambda p: self.run.write(name, p, {"V": basis.read(p, 0, width).T}), self.blocks)
        fields = asdict(state)
        arrays = {key: fields.pop(key) for key in STATE_ARRAYS}
        self.run.write(name, self.state_block, arrays, info=_plain(fields))

    def load(self, basis):
        """Restore the newest whole generation; None if there is none."""
        found = [name for name in self.names if self.run.done(name, self.state_block)]
        for name in sorted(found, key=lambda name: -self.run.info(name, self.state_block)["n_restarts"]):
            try:
                return self._load(name, basis)
            except CorruptBlockError:
                continue
        return None

    def _load(self, name, basis):
        read = self.run.reader(name, self.state_block)
        fields = self.run.info(name, self.state_block) | {key: read(key) for key in STATE_ARRAYS}
        fields["filter"] = lanczos.Filter(**fields["filter"])
        for p in self.blocks:
            basis.write(p, 0, self.run.read(name, p, "V").T)
        return lanczos.LanczosState(**fields)

    def drop(self):
        """Delete both generations."""
        for name in self.names:
            self.run.drop(name, [self.state_block, *self.blocks])
