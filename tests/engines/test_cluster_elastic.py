"""On Dask clusters whose workers come and go: who joins is used, who leaves costs what was not done."""

import asyncio
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from clusters import Gate, assert_same, cluster_of, fit, ledgers, redone
from sklearn.datasets import make_blobs
from small_fits import cut_small

import bigsmic
import bigsmic.engines.dask
from bigsmic.engines import dask_actors
from bigsmic.engines.dask_actors import LostWorkerError
from bigsmic.engines.dask_losses import RETIREMENTS, Losses
from bigsmic.errors import ClusterError

pytestmark = [
    pytest.mark.usefixtures("many_blocks"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LEFT = (
    "routed_rows",
    "neighbors",
    "matrix.normalized.t3",
    "eigen normalized.t3",
    "labeling.groups.normalized.t3",
    "output",
)
"""Stages in which a worker leaves: those of tasks, and of actors."""


@pytest.fixture(scope="module")
def rows():
    """Two thousand rows: eight blocks."""
    X, _ = make_blobs(2000, 5, centers=4, cluster_std=2, random_state=4, center_box=(-5, 5))
    return X.astype(np.float32)


@pytest.fixture(scope="module")
def alone(rows):
    """Labels and posterior of threads."""
    with pytest.MonkeyPatch.context() as patch:
        cut_small(patch)
        result = fit(rows)
        return result.labels, np.asarray(result.posterior)


def workers_of(client, stage):
    """Addresses of the workers that have run blocks of a stage."""
    return {address for _, (address, _) in client.get_events(f"bigsmic {stage}")}


def departures(client):
    """Addresses of the workers that have left because they were told to."""
    events = [event for _, event in client.get_events("all") if event.get("action") == "remove-worker"]
    return [event["worker"] for event in events if event["expected"]]


@pytest.mark.end_to_end
def test_a_worker_that_joins_in_the_middle_of_a_stage_takes_blocks(rows, alone, tmp_path):
    def join(stage, done, total):
        if (stage, done) == ("neighbors", 1):
            client.cluster.scale(2)
            client.wait_for_workers(2, timeout=60)

    marks = tmp_path / "marks"
    marks.mkdir()
    with cluster_of(1) as client:
        # tasks of 4, 2, 1 and 1 blocks, in this order: four blocks end the first of them, and leave two to be taken
        client.register_plugin(Gate("neighbors", marks, n_passing=4))
        assert_same(fit(rows, client=client, out=tmp_path / "run", progress=join), alone)
        assert len(workers_of(client, "neighbors")) == 2


@pytest.mark.end_to_end
@pytest.mark.parametrize("stage", [pytest.param(s, marks=[] if "eigen" in s else pytest.mark.slow) for s in LEFT])
def test_a_worker_that_leaves_costs_nothing_that_is_done(rows, alone, tmp_path, monkeypatch, stage):
    before = {}

    monkeypatch.setattr(bigsmic.engines.dask, "RETURN_SECONDS", 1)  # nobody comes back

    def leave(name, done, total):
        if name == stage and not before and (done or " " in name or "labeling" in name):
            before.update(ledgers(tmp_path / "run"))
            client.retire_workers([next(iter(client.has_what()))], close_workers=True)

    with cluster_of(2) as client:
        assert_same(fit(rows, client=client, out=tmp_path / "run", progress=leave), alone)
        assert len(departures(client)) == 1
    assert before
    assert not redone(before, ledgers(tmp_path / "run"))


@pytest.mark.end_to_end
def test_a_cluster_may_grow_and_shrink_as_it_likes(rows, alone, tmp_path):
    numbers = set()

    def look(stage, done, total):
        numbers.add(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.workers)))

    with cluster_of(1) as client:
        client.cluster.adapt(minimum=2, maximum=3, interval="500ms", target_duration="100ms", wait_count=10)
        assert_same(fit(rows, client=client, out=tmp_path / "run", progress=look), alone)
    assert max(numbers) > 1


@pytest.mark.slow
def test_a_cluster_may_shrink_to_nothing(rows, alone, tmp_path):
    with cluster_of(0) as client:
        client.cluster.adapt(minimum=0, maximum=2, interval="200ms", wait_count=2)
        assert_same(fit(rows, client=client, out=tmp_path / "run"), alone)


@pytest.mark.slow
def test_workers_may_have_short_lives(rows, tmp_path):
    options = {"t": (3, 5), "widths": (1, 1.5, 2, 2.5), "n_centers": 200}
    alone = fit(rows, **options)
    with cluster_of(2, lifetime="15 seconds", lifetime_stagger="5 seconds") as client:
        # replaced as by a batch system: workers that restart themselves (lifetime_restart) now and then do not, in Dask
        client.cluster.adapt(minimum=2, maximum=2, interval="500ms")
        for number in range(9):
            there = fit(rows, client=client, out=tmp_path / f"{number}", **options)
            assert_same(there, (alone.labels, np.asarray(alone.posterior)))
            if len(departures(client)) > 1:
                break
        assert len(departures(client)) > 1


# -- what places tell each other


@pytest.fixture
def place():
    """A place on an event loop of its own; its one peer answers what `place.answers` has, by operation, if asked to."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    worker = SimpleNamespace(address="here", loop=SimpleNamespace(asyncio_loop=loop), state=SimpleNamespace(nthreads=1))
    place = dask_actors._ActorHost(worker, ("token", ["here", "there"], [0, 1, 2], None), 0)

    async def ask(j, reply=True, **message):
        return place.answers[message["op"]].pop(0) if reply else place.sent.append(message["step"])

    place._ask, place.sent = ask, []
    yield place
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_rows_are_sent_again_to_a_worker_that_is_too_new_to_take_them(place):
    place.answers = {"bigsmic_push": [None, None, dask_actors.TAKEN]}
    place.receive(0, 1, np.ones(3))
    (received,) = place.exchange({1: np.zeros(2)}, [1]).values()
    np.testing.assert_array_equal(received, np.ones(3))
    assert place.answers["bigsmic_push"] == []


def test_a_worker_that_has_taken_rows_once_need_not_answer_again(place):
    place.answers = {"bigsmic_push": [dask_actors.TAKEN]}
    for _ in range(3):
        place.exchange({1: np.zeros(2)}, [])
    assert place.sent == [1, 2]


@pytest.mark.parametrize(("answers", "patience"), [([True, True, False], 60), ([None, None, None], 0)])
def test_nobody_waits_for_a_peer_that_failed_or_never_came(place, monkeypatch, answers, patience):
    monkeypatch.setattr(dask_actors, "PING_SECONDS", 0.01)
    monkeypatch.setattr(dask_actors, "OPEN_SECONDS", patience)
    place.answers = {"bigsmic_goes_on": answers}
    with pytest.raises(LostWorkerError, match="the actor on there has failed or ended"):
        place.exchange({}, [1])


# -- when it is enough


def counted(*losses):
    count = Losses("eigen")
    for progress, on_purpose in losses:
        count.count(LostWorkerError("it is gone"), progress, on_purpose)
    return count


def test_three_deaths_without_progress_are_enough():
    assert counted((False, False), (False, False), (True, False), (False, False)).deaths == 2
    with pytest.raises(ClusterError, match=r"eigen: workers were lost 3 times without progress; it is gone. Give work"):
        counted(*[(False, False)] * 3)


def test_workers_that_leave_on_purpose_are_no_deaths_but_cannot_go_on_for_ever():
    assert counted(*[(False, True)] * (RETIREMENTS - 1)).deaths == 0
    counted(*[(False, True), (True, True)] * RETIREMENTS)
    with pytest.raises(ClusterError, match=r"have left 20 times before the next checkpoint.*longer lifetime"):
        counted(*[(False, True)] * RETIREMENTS)


def test_what_a_lost_worker_has_used_is_not_forgotten():
    with cluster_of(1) as client, bigsmic.engines.dask.ClusterEngine(client) as engine:
        client.submit(lambda: sum(range(10**7)), pure=False).result()
        before, _ = engine.usage()
        client.restart(timeout=60)
        after, peak = engine.usage()
    assert after > before
    assert peak > 0
