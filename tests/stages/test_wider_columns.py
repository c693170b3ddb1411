"""More eigenvectors for labelings that need them: added to those that there are, the same whenever a fit is killed."""

import shutil
import warnings
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score
from small_fits import cut_small, keep_on_disk

import bigsmic
from bigsmic import registry
from bigsmic.errors import BigsmicWarning, PlanError
from bigsmic.stages import eigenvalue_counts, selection, wider_columns
from bigsmic.store import Run

pytestmark = [
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore:c .n_clusters.. got 24, but the data show:bigsmic.errors.BigsmicWarning"),
]

BASES = ("basis.normalized.t5", "basis.normalized.t5.s0.75")
FIRST, ALL = 36, 96
C, OPTIONS = 24, {"scale": None, "n_centers": 40, "t": 5, "n_threads": 1}


@pytest.fixture(scope="module")
def touching():
    """Clusters that touch: labelings by valleys do not tell them, and the others read more columns."""
    return make_blobs(900, 6, centers=C, cluster_std=1.5, center_box=(-6, 6), random_state=1)[0]


@pytest.fixture(scope="module")
def whole(touching):
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        with warnings.catch_warnings():  # whether they show another number does not matter
            warnings.simplefilter("ignore", BigsmicWarning)
            return bigsmic.fit(touching, C, **OPTIONS)


def bases(run):
    numbers = {name: run.numbers(name) for name in BASES}
    return {
        name: np.concatenate([run.read(name, p, "V") for p in blocks]) for name, blocks in numbers.items() if blocks
    }


def killed_at(module, name, X, out, c=C, **options):
    def kill(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, kill)
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(X, c, **OPTIONS | options, out=out)


@pytest.fixture(scope="module")
def killed(touching, tmp_path_factory):
    """Run of a fit that was killed in a function, made when it is asked for."""
    made = {}

    def run(module, name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "run"
            with pytest.MonkeyPatch.context() as patch:
                cut_small(patch)
                killed_at(module, name, touching, made[name])
        return made[name]

    return run


def test_eigenvectors_are_added_to_those_of_labelings_by_valleys(touching, whole, tmp_path):
    killed_at(wider_columns, "begin", touching, tmp_path / "run")
    run = Run(tmp_path / "run", writable=False)
    first, groups = bases(run), run.entry("labeling.groups.normalized.t5", 0)
    result = bigsmic.fit(touching, C, **OPTIONS, out=tmp_path / "run")
    assert {V.shape for V in first.values()} == {(900, FIRST)}
    for name, V in bases(run).items():
        assert V.shape == (900, ALL)
        np.testing.assert_array_equal(V[:, :FIRST], first[name])
    assert run.entry("labeling.groups.normalized.t5", 0) == groups  # what was made of the first is not made again
    np.testing.assert_array_equal(result.labels, whole.labels)
    for found in result.diagnostics["eigen"]:
        assert found["converged"]
        assert (found["n_wanted"], found["first"]["n_wanted"]) == (ALL, FIRST)
        assert max(found["residual_norms"]) <= 1e-4


@pytest.mark.parametrize(
    ("stage", "module", "name"),
    [
        (BASES[0], wider_columns, "_delete_narrow"),
        ("spectrum", wider_columns, "_delete_narrow"),
        ("ahead.normalized.t5.s0.75", wider_columns, "_delete_narrow"),
        (BASES[1], selection, "run"),
    ],
)
def test_what_is_lost_is_found_again_in_the_same_steps(touching, whole, killed, tmp_path, stage, module, name):
    shutil.copytree(killed(module, name), tmp_path / "run")
    with closing(Run(tmp_path / "run")) as run:
        run.forget(stage, 1)
    result = bigsmic.fit(touching, C, **OPTIONS, out=tmp_path / "run")
    np.testing.assert_array_equal(result.labels, whole.labels)
    for name, V in bases(whole._run).items():
        np.testing.assert_array_equal(bases(result._run)[name], V)


def test_a_solve_for_more_is_resumed_where_some_of_its_blocks_are_written(touching, whole, tmp_path, monkeypatch):
    write, written = Run.write, []

    def dying(run, stage, block, arrays, **options):
        if stage == BASES[0] and arrays["V"].shape[1] == ALL:
            if written:
                raise KeyboardInterrupt
            written.append(block)
        write(run, stage, block, arrays, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "write", dying)
        with pytest.raises(KeyboardInterrupt):
            bigsmic.fit(touching, C, **OPTIONS, out=tmp_path / "run")
    run = Run(tmp_path / "run", writable=False)
    assert {run.read(BASES[0], p, "V").shape[1] for p in run.numbers(BASES[0])} == {FIRST, ALL}
    result = bigsmic.fit(touching, C, **OPTIONS, out=tmp_path / "run")
    np.testing.assert_array_equal(result.labels, whole.labels)


def test_eigenvectors_of_a_bulk_are_no_start(touching, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(wider_columns, "can_go_on", lambda context: False)
    result = bigsmic.fit(touching, C, **OPTIONS, out=tmp_path / "run")
    assert all("first" not in found for found in result.diagnostics["eigen"])
    assert {V.shape for V in bases(result._run).values()} == {(900, ALL)}


@pytest.fixture(scope="module")
def fifty():
    return make_blobs(3000, 6, centers=50, cluster_std=0.3, center_box=(-12, 12), random_state=5)[0]


def test_an_open_fit_begins_with_columns_enough_for_the_parts_of_its_graph(fifty, tmp_path):
    options = OPTIONS | {"shrinkage": 0}
    result = bigsmic.fit(fifty, **options)
    assert result.n_clusters == 50
    assert 67 <= result.diagnostics["valleys"]["columns"] <= 85  # one and a half for each part
    (solve,) = result.diagnostics["eigen"]
    assert "first" not in solve
    for module, name in [(eigenvalue_counts, "parts"), (wider_columns, "_delete_narrow"), (selection, "run")]:
        killed_at(module, name, fifty, tmp_path / name, None, **options)
        again = bigsmic.fit(fifty, **options, out=tmp_path / name)
        np.testing.assert_array_equal(again.labels, result.labels)


@pytest.mark.parametrize(
    ("counts", "info", "parts"),
    [
        ([66.0, 78.0, 84.0, 85.6], {"components": 100}, 100),
        ([66.0, 78.0, 84.0, 85.6], {"components": 3}, 86),
        ([10.0, 14.0, 20.0, 28.0], {"components": 5}, 0),
    ],
)
def test_the_graph_has_at_least_as_many_parts_as_components(tmp_path, counts, info, parts):
    run = Run(tmp_path / "run")
    assert eigenvalue_counts.parts(run) == 0
    run.write(eigenvalue_counts.EIGENVALUE_COUNTS, 0, {"counts": np.array(counts)}, info=info)
    assert eigenvalue_counts.parts(run) == parts


def test_the_graph_of_a_fit_has_at_least_as_many_parts_as_components():
    X = make_blobs(4000, 16, centers=80, random_state=0)[0]
    result = bigsmic.fit(X, **OPTIONS | {"shrinkage": 0})
    assert result.n_clusters == 80
    assert result.valleys.graph_parts >= result._run.info("repair", 0)["before"] >= 80


def test_an_open_fit_begins_with_fewer_columns_where_memory_is_short(fifty, monkeypatch):
    monkeypatch.setattr(wider_columns, "_has_room", lambda job, n_columns: False)
    result = bigsmic.fit(fifty, **OPTIONS | {"shrinkage": 0})
    assert result.n_clusters == 50
    (solve,) = result.diagnostics["eigen"]
    assert solve["first"]["n_wanted"] == 60


def test_rows_without_parts_begin_with_the_first_columns():
    X = np.random.default_rng(0).random((3000, 2))
    result = bigsmic.fit(X, **OPTIONS | {"shrinkage": 0})
    counts = result._run.read("eigenvalue_counts", 0, "counts")
    assert 2.5 < counts[-1] / counts[-3] < 5.5  # of twice the angle, 4 in a plane of many rows
    assert not result._run.done(wider_columns.WIDER, 0)


@pytest.fixture(scope="module")
def with_integers():
    """Three far blobs beside two columns of integers: the graph has 24 parts, and 18 columns tell any of them."""
    draw = np.random.default_rng(0)
    y = draw.integers(0, 3, 3000)
    integers = draw.integers(0, 4, 3000), draw.integers(0, 2, 3000)
    return np.column_stack([draw.normal(size=(3000, 3)) + 5 * np.eye(3)[y], *integers]), y


def test_a_fit_of_a_given_number_takes_columns_enough_for_the_parts_of_its_graph(with_integers, tmp_path):
    X, y = with_integers
    options = OPTIONS | {"scale": "standard", "shrinkage": 0}
    result = bigsmic.fit(X, 3, **options)
    assert adjusted_rand_score(y, result.labels) > 0.95
    assert 24 <= result.diagnostics["valleys"]["columns"] <= 45
    (solve,) = result.diagnostics["eigen"]
    assert "first" not in solve  # 18 of 24 eigenvectors are no start
    for module, name in [(eigenvalue_counts, "parts"), (wider_columns, "_delete_narrow"), (selection, "run")]:
        killed_at(module, name, X, tmp_path / name, 3, **options)
        again = bigsmic.fit(X, 3, **options, out=tmp_path / name)
        np.testing.assert_array_equal(again.labels, result.labels)
    np.testing.assert_array_equal(again.predict(X), result.labels)


@pytest.mark.parametrize("seed", [8, 12])
def test_curves_of_few_rows_are_no_parts(seed):
    result = bigsmic.fit(make_moons(500, noise=0.03, random_state=seed)[0], 2, n_threads=1)
    assert result._run.done(eigenvalue_counts.EIGENVALUE_COUNTS, 0)
    assert not wider_columns.are_for_parts(result._run)


def test_more_parts_than_columns_are_allowed_for_are_warned_of(with_integers, monkeypatch):
    monkeypatch.setattr(wider_columns, "MOST_FOR_PARTS", 20)
    with pytest.warns(
        BigsmicWarning, match=r"c \(n_clusters\): got 3, but the neighbour graph has about \d+ parts, .*: leave such"
    ):
        result = bigsmic.fit(with_integers[0], 3, **OPTIONS | {"scale": "standard", "shrinkage": 0})
    assert result.diagnostics["valleys"]["columns"] == 18


def test_columns_for_parts_that_the_memory_limit_does_not_allow_are_refused(with_integers, monkeypatch):
    module = registry.load("smic")
    plan = module.plan

    def tight(size, settings, *args, **options):
        if settings.columns_read > 18:
            raise PlanError("memory_limit: got too little")
        return plan(size, settings, *args, **options)

    monkeypatch.setattr(module, "plan", tight)
    with pytest.raises(PlanError, match=r"got too little; .* raise the memory limit and resume$"):
        bigsmic.fit(with_integers[0], 3, **OPTIONS | {"scale": "standard", "shrinkage": 0})


def test_an_open_fit_goes_on_from_the_eigenvectors_that_it_has(fifty, tmp_path, monkeypatch):
    X, options = fifty, OPTIONS | {"shrinkage": 0}
    monkeypatch.setattr(eigenvalue_counts, "parts", lambda run: 0)
    killed_at(wider_columns, "_delete_narrow", X, tmp_path / "run", None, **options)
    first = bases(Run(tmp_path / "run", writable=False))[BASES[0]]
    result = bigsmic.fit(X, **options, out=tmp_path / "run")
    assert result.n_clusters == 50
    assert result.diagnostics["valleys"]["columns"] == 120
    np.testing.assert_array_equal(bases(result._run)[BASES[0]][:, :60], first)


def test_threads_and_disk_do_not_matter(touching, whole, monkeypatch):
    keep_on_disk(monkeypatch)
    result = bigsmic.fit(touching, C, **OPTIONS | {"n_threads": 2})
    np.testing.assert_array_equal(result.labels, whole.labels)
    for name, V in bases(whole._run).items():
        np.testing.assert_array_equal(bases(result._run)[name], V)


@pytest.mark.parametrize("method", ["smic", "3smic"])
def test_columns_that_the_memory_limit_does_not_allow_are_refused_with_what_to_do(touching, method, monkeypatch):
    module = registry.load(method)
    plan = module.plan

    def tight(size, settings, *args, **options):
        if settings.columns_read:
            raise PlanError("memory_limit: got too little")
        return plan(size, settings, *args, **options)

    monkeypatch.setattr(module, "plan", tight)
    monkeypatch.setattr(wider_columns, "_wanted", lambda context: ALL)
    remedy = r"the rows need more eigenvectors .*: raise the memory limit and resume, .* such as range\(2, \d+\)"
    with pytest.raises(PlanError, match=f"memory_limit: got too little; {remedy}"):
        bigsmic.fit(touching, None, method=method, **OPTIONS)


@pytest.mark.parametrize(
    ("facts", "settings", "m", "most", "wanted"),
    [
        ({}, {}, 60, 1000, 0),
        ({"votes": [5, 5, 46]}, {}, 60, 1000, 120),
        ({"votes": [45] * 4}, {}, 60, 1000, 0),  # as many as these columns show
        ({"votes": [46] * 4, "dense_parts": True, "parts": 2}, {}, 60, 1000, 0),
        ({"votes": [2] * 4, "dense_parts": True, "parts": 46}, {}, 60, 1000, 120),
        ({"hidden": True}, {}, 60, 1000, 120),
        ({"hidden": True}, {}, 61, 1000, 0),  # as many as were added once
        ({"votes": [99] * 4}, {}, 61, 1000, 122),
        ({"votes": [99] * 4}, {}, 60, 90, 90),
        ({"votes": [99] * 4}, {}, 60, 89, 0),
        ({"votes": [99] * 4}, {"open_to": 12}, 60, 1000, 0),
        ({"votes": [99] * 4}, {"curves": True}, 60, 1000, 0),
    ],
)
def test_twice_as_many_columns_are_read_if_clusters_are_too_many_for_them(
    monkeypatch, facts, settings, m, most, wanted
):
    info = {"votes": [5] * 4, "dense_parts": False, "parts": None, "hidden": False} | facts
    context = SimpleNamespace(
        run=SimpleNamespace(info=lambda *_: info), settings=SimpleNamespace(open_to=settings.get("open_to")), n=10**6
    )
    monkeypatch.setattr(wider_columns, "valley_columns", lambda settings, n: m)
    monkeypatch.setattr(wider_columns, "_most_columns", lambda context, rows_per_column: most)
    monkeypatch.setattr(wider_columns.graph_parts, "lie_along_curves", lambda _: settings.get("curves", False))
    assert wider_columns._wanted(context) == wanted


@pytest.mark.parametrize(("n_parts", "most", "wanted"), [(45, 1000, 0), (46, 1000, 69), (46, 65, 65), (46, 60, 0)])
def test_the_parts_of_the_graph_have_half_as_many_columns_more(monkeypatch, n_parts, most, wanted):
    monkeypatch.setattr(wider_columns, "_most_columns", lambda context, rows_per_column: most)
    monkeypatch.setattr(eigenvalue_counts, "parts", lambda run: n_parts)
    assert wider_columns._columns_for_parts(SimpleNamespace(run=None), 60) == wanted


@pytest.mark.parametrize(
    ("n_rows", "n_distinct", "n_counted", "has_copies"),
    [(600, 1, 600, True), (600, 100, 600, True), (600, 101, 600, False), (12_000, 500, 4000, True)],
)
def test_rows_have_many_copies_if_at_most_a_sixth_of_those_counted_differ(n_rows, n_distinct, n_counted, has_copies):
    rows = np.sort(np.arange(n_rows) % n_distinct)[:, None]
    context = SimpleNamespace(
        drawn_rows=lambda: rows,
        column_scaler=SimpleNamespace(apply=lambda X: X.astype(np.float32)),
        cached=lambda name, make: make(),
    )
    assert wider_columns._counted(context) == (n_counted, n_distinct)
    assert wider_columns.have_many_copies(context) == has_copies
