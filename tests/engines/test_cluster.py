"""On a Dask cluster of worker processes: the same bits, whatever the workers, and whatever happens to them."""

import asyncio
import json
import time
import traceback
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace

import dask
import numpy as np
import pytest
from clusters import (
    AT_ONCE,
    CLIENT,
    CLUSTER,
    STAGES,
    assert_same,
    await_stage,
    cluster_of,
    fit,
    ledgers,
    redone,
    start,
    trap,
)
from dask.utils import key_split
from distributed import Client, get_client, get_worker
from small_fits import FAST, SMALL, cut_small, keep_on_disk

import bigsmic
from bigsmic.engines import dask as dask_cluster
from bigsmic.engines import dask_clients, dask_tasks
from bigsmic.engines.dask import SENT_WITH_TASKS, ClusterEngine
from bigsmic.engines.processor import Processor
from bigsmic.errors import (
    BigsmicError,
    BigsmicWarning,
    ClusterError,
    InputError,
    LostBlocksError,
    PlanError,
    RunError,
)

pytestmark = [
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as client:
        yield client


@pytest.fixture(scope="module")
def alone(blobs):
    """Labels and posterior of threads."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = fit(blobs[0], assignment="merge")
        return result.labels, np.asarray(result.posterior)


def _place(input, block):
    time.sleep(0.05)
    return block, len(input), get_worker().address


@pytest.mark.parametrize("size", [1, SENT_WITH_TASKS])
def test_inputs_of_any_size_reach_the_workers(client, size):
    with ClusterEngine(client) as engine:
        places = engine.map(partial(_place, bytes(size)), range(4))
        assert [place[:2] for place in places] == [(block, size) for block in range(4)]
        assert size > 1 or {worker for *_, worker in places} == set(engine.workers())  # four tasks on both workers


def test_labels_are_those_of_threads(client, blobs, alone, tmp_path):
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)


def test_neighbours_chosen_among_candidates_are_those_of_threads(client):
    rng = np.random.default_rng(0)
    X = (np.repeat([0.5, 1, 2], 300)[:, None] * rng.normal(size=(900, 30))).astype(np.float32)
    wanted, found = (fit(X, client=one) for one in (None, client))
    assert wanted._run.info("hubs", 0)["chosen"]
    assert_same(found, (wanted.labels, np.asarray(wanted.posterior)))


ALL_DEATHS = [(stage, how) for stage in STAGES for how in ("kill", "segfault", "exit")]
DEATHS = [("neighbors", "kill"), ("basis.normalized.t3", "segfault"), ("labeling.groups.normalized.t3", "exit")]


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("stage", "how"), [pytest.param(*c, marks=[] if c in DEATHS else pytest.mark.slow) for c in ALL_DEATHS]
)
def test_a_worker_that_dies_costs_its_unfinished_blocks(request, blobs, alone, tmp_path, stage, how):
    # nannies do not replace a worker that has left by sys.exit: it takes a cluster of its own
    with cluster_of(2) if how == "exit" else nullcontext(request.getfixturevalue("client")) as client:
        with trap(client, stage, how, tmp_path) as marks:
            assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)
        (mark,) = marks.iterdir()
    again = redone(json.loads(mark.read_text()), ledgers(tmp_path / "run"))
    assert not [block for block in again if not block.startswith(AT_ONCE)]


@pytest.mark.end_to_end
def test_a_block_that_kills_its_workers_is_named(client, blobs, tmp_path):
    with (
        trap(client, "neighbors", "kill", tmp_path, times=9, block=2) as marks,
        pytest.raises(LostBlocksError, match="neighbors: block 2, positions"),
    ):
        fit(blobs[0], client=client, out=tmp_path / "run")
    assert len(list(marks.iterdir())) == dask_tasks.DEATHS


def _limit(dask_scheduler=None):
    return dask_scheduler.allowed_failures


def _set_limit(number, dask_scheduler=None):
    dask_scheduler.allowed_failures = number


def test_the_scheduler_has_its_own_limit_of_deaths_again_after_fits_that_overlap(client):
    before = client.run_on_scheduler(_limit)
    client.run_on_scheduler(_set_limit, 7)
    try:
        first, second = ClusterEngine(client), ClusterEngine(client)
        lost = Client(client.scheduler.address, set_as_default=False)
        ClusterEngine(lost).__enter__()
        with first:
            second.__enter__()
        lost.close()  # without the end of its fit, as if it was killed
        while client.run_on_scheduler(lambda dask_scheduler, name=lost.id: name in dask_scheduler.clients):
            time.sleep(0.05)
        assert client.run_on_scheduler(_limit) == dask_tasks.DEATHS - 1
        second.__exit__()
        assert client.run_on_scheduler(_limit) == 7
    finally:
        client.run_on_scheduler(_set_limit, before)


# -- the client, or the scheduler, is gone


@pytest.mark.end_to_end
def test_a_killed_client_is_followed_by_one_that_goes_on(client, blobs, alone, tmp_path):
    np.save(tmp_path / "X.npy", blobs[0])
    options = json.dumps(FAST | {"c": 4, "t": (3,), "widths": (1.5, 2)})
    sizes = json.dumps(asdict(SMALL))
    killed = start(CLIENT, tmp_path / "X.npy", tmp_path / "run", client.scheduler.address, options, sizes)
    await_stage(tmp_path / "run", "weights.normalized.t3", killed)
    killed.kill()
    killed.communicate()
    before = ledgers(tmp_path / "run")
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)
    assert len(redone(before, ledgers(tmp_path / "run"))) <= 0.1 * len(before)


@pytest.mark.end_to_end
def test_a_killed_scheduler_is_an_error_and_the_next_fit_goes_on(client, blobs, alone, tmp_path):
    lost = start(CLUSTER)
    try:
        with Client(lost.stderr.readline().strip(), set_as_default=False, timeout=10) as doomed:

            def kill_in_eigen(stage, done, total):
                if stage.startswith("eigen"):
                    lost.kill()

            with pytest.raises(ClusterError, match="resumes"):
                fit(blobs[0], client=doomed, out=tmp_path / "run", progress=kill_in_eigen)
    finally:
        lost.kill()
        lost.communicate()
    before = ledgers(tmp_path / "run")
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)
    assert not redone(before, ledgers(tmp_path / "run"))


# -- what a cluster is refused for


def test_an_address_where_nothing_answers_is_an_error_in_time(blobs, monkeypatch):
    allowed = []
    monkeypatch.setattr(dask_clients, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(
        dask_clients, "Client", lambda *args, **more: (allowed.append(more["timeout"]), Client(*args, **more))[1]
    )
    with pytest.raises(ClusterError, match="did not answer within 1 s"):
        fit(blobs[0], scheduler="tcp://127.0.0.1:9")
    assert allowed == [1]
    for what, why in (("no address", "missing port"), ("udp://host:1", "unknown address scheme")):
        with pytest.raises(InputError, match="give the address that the scheduler prints") as error:
            fit(blobs[0], scheduler=what)
        assert f"which is no address ({why}" in str(error.value)
    assert allowed == [1], "which are not even tried"


def test_a_client_is_no_address(client, blobs):
    with pytest.raises(InputError, match=r"scheduler: got <Client.*give a client as client="):
        fit(blobs[0], scheduler=client)


def test_a_client_that_is_closed_is_refused(client, blobs):
    with Client(client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(InputError, match=r"client: got .*, which is closed; connect a new distributed\.Client"):
        fit(blobs[0], client=closed)


def test_a_client_whose_calls_are_awaited_is_refused(client, blobs):
    async def awaited():
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as found:
            with pytest.raises(InputError, match=r"asynchronous here.*by asyncio\.to_thread, .* or give client=False"):
                fit(blobs[0], client=found)

    asyncio.run(awaited())


def test_two_places_to_run_are_refused(client, blobs):
    for given in (client, False):
        with pytest.raises(InputError, match=r"scheduler: got it together with client=.*; give one of them"):
            fit(blobs[0], client=given, scheduler="tcp://127.0.0.1:9")


def test_workers_with_other_versions_are_refused(client, blobs, monkeypatch):
    monkeypatch.setattr("bigsmic.version.__version__", "99.0")
    with pytest.raises(ClusterError, match=r"tcp://.* has bigsmic .* there and 99\.0 here"):
        fit(blobs[0], client=client)


def test_workers_with_other_processors_are_warned_of_once(client, blobs, tmp_path, monkeypatch):
    other = Processor("Another", ("Prescott",), "generic", (), ())
    monkeypatch.setattr(dask_cluster.Processor, "here", lambda: other)
    with pytest.warns(BigsmicWarning, match=r"2 workers on .*; this process on Another \(BLAS Prescott") as caught:
        fit(blobs[0], client=client, out=tmp_path / "run")
    assert len(caught) == 1


def test_a_worker_with_another_processor_that_joins_is_warned_of(monkeypatch):
    engine, here = dask_cluster.ClusterEngine(None), Processor.here()
    other = here._replace(model="Another", numba=f"another than {here.numba}")
    engine._warn_of_other_processors([here, here])
    with pytest.warns(BigsmicWarning, match=r"2 workers on .*; 1 worker on Another"):
        engine._warn_of_other_processors([here, here, other])
    engine._warn_of_other_processors([here, other])


class JustInTime:
    """A future that is done when it is looked at, just after the wait for it was over."""

    def result(self, timeout=None):
        if timeout is not None:
            raise TimeoutError
        return "answer"

    def done(self):
        return True


def test_an_answer_that_comes_just_after_a_wait_is_taken():
    assert dask_cluster.ClusterEngine(client=None)._answer("tcp://a:1", JustInTime()) == "answer"


def test_too_little_memory_is_refused_before_the_start(client, blobs, tmp_path):
    with pytest.raises(PlanError, match="set memory_limit to at least"):
        fit(blobs[0], client=client, memory_limit="10MiB", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_fit_is_planned_within_what_a_worker_may_fill_before_it_is_paused(blobs):
    with cluster_of(1, memory_limit="400MiB") as client:
        with pytest.raises(PlanError, match=r"limit is 320MiB; .* 0\.8 of the 400MiB of a worker, above which"):
            bigsmic.plan(blobs[0], 4, client=client)
        with pytest.raises(PlanError, match="the memory limit is 300MiB; set memory_limit") as caught:
            bigsmic.plan(blobs[0], 4, client=client, memory_limit="300MiB")
    assert "of a worker" not in str(caught.value)


@pytest.mark.parametrize(
    ("pause", "nanny", "terminate", "share"),
    [
        (0.8, "tcp://a:1", 0.95, 0.8),
        (False, "tcp://a:1", 0.95, 0.95),
        (False, "tcp://a:1", False, 1.0),
        (False, None, 0.95, 1.0),
    ],
)
def test_a_worker_may_fill_what_dask_neither_pauses_nor_ends_it_for(pause, nanny, terminate, share):
    memory = SimpleNamespace(memory_limit=4 << 30, memory_pause_fraction=pause)
    worker = SimpleNamespace(memory_manager=memory, nanny=nanny)
    with dask.config.set({"distributed.worker.memory.terminate": terminate}):
        assert dask_tasks._limit(worker)[0] == int(share * (4 << 30))
    memory.memory_limit = None
    assert dask_tasks._limit(worker) == (None, "")


def test_a_plan_knows_which_workers_share_a_machine(client, blobs):
    size = bigsmic.plan(blobs[0], 4, client=client).size
    assert size.workers_per_machine == size.n_workers == 2


def test_a_run_directory_that_workers_do_not_see_is_refused(client, blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_cluster, "sees", _blind)
    with pytest.raises(RunError, match=r"2 of 2 workers cannot find .*; give an out= on storage"):
        fit(blobs[0], client=client, out=tmp_path / "run")


def _blind(payload):
    return False


@pytest.mark.parametrize("address", ["tcp://me:PASSWORD@127.0.0.1:9", "me:PASSWORD@127.0.0.1:9"])
def test_a_password_in_an_address_is_not_shown(blobs, monkeypatch, address):
    monkeypatch.setattr(dask_clients, "CONNECT_SECONDS", 1)
    with pytest.raises(InputError, match=r"got .*127\.0\.0\.1:9', which is no address") as caught:
        fit(blobs[0], scheduler=address)
    assert "PASSWORD" not in "".join(traceback.format_exception(caught.value))


# -- within a task


def _fit_there(X, out, with_client):
    result = fit(X, out=out, block_sizes=SMALL, **({"client": get_client()} if with_client else {}))
    return result.labels, np.asarray(result.posterior)


@pytest.mark.end_to_end
@pytest.mark.parametrize("with_client", [False, True])
def test_a_fit_within_a_task_does_not_wait_for_its_own_thread(blobs, alone, tmp_path, with_client):
    with cluster_of(1, 1) as client:
        found = client.submit(_fit_there, blobs[0], tmp_path / "run", with_client).result(timeout=240)
        np.testing.assert_array_equal(found[0], alone[0])
        np.testing.assert_array_equal(found[1], alone[1])
        assert client.get_events("bigsmic neighbors"), "its tasks ran on the cluster"
        assert client.submit(sum, [1, 2]).result(timeout=60) == 3, "the thread is a worker's again"


# -- what else runs there


def test_bad_rows_are_named(client, blobs, tmp_path):
    X = blobs[0].copy()
    X[300, 2] = np.nan
    with pytest.raises(BigsmicError, match="first at row 300, column 2"):
        fit(X, client=client, out=tmp_path / "run")


def test_a_basis_on_the_workers_disks_gives_the_same_bits(client, blobs, alone, tmp_path, monkeypatch):
    keep_on_disk(monkeypatch)
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)


def test_a_damaged_block_is_made_again(client, blobs, alone, tmp_path):
    fit(blobs[0], client=client, out=tmp_path / "run")
    chunk = next((tmp_path / "run" / "basis.normalized.t3" / "0000001" / "V").glob("c*"))
    chunk.write_bytes(chunk.read_bytes()[:-7])
    assert_same(fit(blobs[0], client=client, out=tmp_path / "run"), alone)


def test_predictions_are_those_of_threads(client, blobs, tmp_path):
    import zarr

    archive = zarr.create_array(str(tmp_path / "new.zarr"), shape=blobs[0].shape, chunks=(100, 5), dtype="f4")
    archive[:] = blobs[0] + 0.1
    result = fit(blobs[0], out=tmp_path / "run")
    here = result.predict_proba(tmp_path / "new.zarr")
    there = result.predict_proba(tmp_path / "new.zarr", client=client)
    np.testing.assert_array_equal(there, here)
    result.predict(tmp_path / "new.zarr", client=client, out=tmp_path / "out.zarr")
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "out.zarr")["posterior"][:], here)


def test_dashboards_show_the_names_of_stages(client, blobs, tmp_path):
    seen = set()
    fit(blobs[0], client=client, out=tmp_path / "run", progress=lambda stage, *_: seen.add(stage.replace(" ", "_")))
    prefixes = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    actors = {"eigen_normalized.t3_actor", "labeling.groups.normalized.t3_actor"}
    assert {"scan", "routed_rows", "neighbors", "matrix.normalized.t3", "output"} | actors <= prefixes
    assert {name for name in seen if not name.startswith(("eigen", "labeling", "verify"))} <= prefixes
    assert all(key_split(dask_tasks.task_key(name)) == name for name in seen)


def test_a_performance_report_has_the_stages_and_no_secrets(client, blobs, tmp_path):
    options = {"out": tmp_path / "run", "storage_options": {"secret": "nobody-may-see-this"}}
    fit(blobs[0], client=client, performance_report=tmp_path / "report.html", **options)
    page = (tmp_path / "report.html").read_text()
    assert "neighbors" in page
    assert "matrix.normalized.t3" in page
    assert "nobody-may-see-this" not in page
    fit(blobs[0], client=client, performance_report=tmp_path / "report.html", **options)


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_performance_report_takes_the_place_of_nothing_else(client, blobs, tmp_path, is_folder):
    place = tmp_path / "thesis.html"
    place.mkdir() if is_folder else place.write_text("<html>chapter 1</html>")
    with pytest.raises(InputError, match=r"performance_report: .*thesis.html exists and is not a report of Dask; give"):
        fit(blobs[0], client=client, performance_report=place, out=tmp_path / "run")
    assert place.is_dir() if is_folder else place.read_text() == "<html>chapter 1</html>"


def test_a_performance_report_is_of_failed_fits_too(client, blobs, tmp_path):
    X = blobs[0].copy()
    X[300, 2] = np.nan
    with pytest.raises(InputError, match="row 300"):
        fit(X, client=client, out=tmp_path / "run", performance_report=tmp_path / "report.html")
    assert "scan" in (tmp_path / "report.html").read_text()


def test_a_performance_report_that_cannot_be_written_costs_no_run(client, tmp_path):
    with (
        pytest.warns(BigsmicWarning, match=r"report\.html could not be written .*; the run itself has ended"),
        ClusterEngine(client) as engine,
        engine.recorded(tmp_path / "report.html"),
    ):
        (tmp_path / "report.html").mkdir()


def test_a_performance_report_that_cannot_be_made_is_refused_at_once(client, blobs, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"performance_report: cannot write to .*/nowhere; give a path"):
        fit(blobs[0], client=client, performance_report=tmp_path / "nowhere" / "report.html")
    monkeypatch.setattr(dask_cluster, "draws_reports", bool)
    with pytest.raises(InputError, match="install bokeh where the scheduler runs"):
        fit(blobs[0], client=client, performance_report=tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_an_active_client_is_used(client, blobs, alone):
    seen = []
    with client.as_current():
        assert_same(fit(blobs[0], progress=lambda stage, done, total: seen.append(stage)), alone)
    assert "neighbors" in seen
    assert client.get_events("bigsmic neighbors")
