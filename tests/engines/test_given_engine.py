"""An engine of the caller's: any object with the protocol runs a fit, and makes the same labels."""

import resource
import time
from contextlib import nullcontext

import numpy as np
import pytest
import zarr
from sklearn.datasets import make_blobs
from small_fits import FAST

import bigsmic
from bigsmic.engines import PROTOCOL
from bigsmic.engines.base import DEFAULT, Engine, Resources
from bigsmic.engines.threads import ThreadEngine
from bigsmic.errors import InputError
from bigsmic.numerics.row_blocks import LocalGroup, Shard, close, tree_sum

OPTIONS = {name: value for name, value in FAST.items() if name != "n_threads"}
X = make_blobs(600, 4, centers=3, random_state=0)[0].astype(np.float32)


class Serial:
    """One task after the other, in this process."""

    def __init__(self):
        self.resources, self.calls = Resources(), []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.calls.append("exit")

    def recorded(self, path):
        return nullcontext()

    def reach(self, source, run, bounds):
        return source

    def usage(self):
        return time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def for_each(self, task, blocks, options=DEFAULT):
        self.map(task, blocks, options)

    def map(self, task, blocks, options=DEFAULT):
        self.calls.append(options.name)
        return [task(block) for block in blocks]

    def reduce(self, task, blocks, options=DEFAULT):
        return tree_sum(self.map(task, blocks, options))

    def run_actors(self, make, bounds, work, options=DEFAULT):
        actor = make(Shard(self, bounds, range(len(bounds) - 1)))
        try:
            return work(LocalGroup(actor))
        finally:
            close(actor)


@pytest.mark.parametrize("method", ["smic", "mspc"])
def test_a_fit_runs_on_it_and_labels_are_those_of_threads(method, tmp_path):
    options = OPTIONS if method == "smic" else {"method": method}
    engine = Serial()
    assert "scan" in bigsmic.plan(X, 3, engine=engine, **options).stages
    found = bigsmic.fit(X, 3, engine=engine, **options)
    wanted = bigsmic.fit(X, 3, n_threads=2, client=False, **options)
    assert {"scan", "exit"} <= set(engine.calls)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_array_equal(np.asarray(found.posterior), np.asarray(wanted.posterior))
    engine.calls.clear()
    archive = zarr.create_array(str(tmp_path / "X.zarr"), data=X, chunks=(100, 4))
    np.testing.assert_array_equal(found.predict(archive, engine=engine), wanted.predict(X))
    assert engine.calls == ["predict", "exit"]


def test_an_engine_of_ours_may_be_given():
    found = bigsmic.fit(X, 3, method="mspc", engine=ThreadEngine(2))
    np.testing.assert_array_equal(found.labels, bigsmic.fit(X, 3, method="mspc", client=False).labels)


def test_what_is_asked_for_is_the_protocol():
    assert set(PROTOCOL) == {name for name in vars(Serial) if callable(getattr(Serial, name)) and name != "__init__"}
    engine: Engine = Serial()
    assert all(hasattr(engine, name) for name in PROTOCOL)


class Partial(Serial):
    reduce = None
    run_actors = None


class WithoutResources(Serial):
    def __init__(self):
        self.resources = {"n_threads": 1}


@pytest.mark.parametrize(
    ("engine", "more", "message"),
    [
        (Partial(), {}, r"engine: Partial lacks reduce, run_actors; see bigsmic\.engines\.base\.Engine"),
        (WithoutResources(), {}, r"WithoutResources lacks resources \(a bigsmic.engines.base.Resources\)"),
        ("threads", {}, "engine: str lacks __enter__, __exit__, recorded"),
        (Serial, {}, "engine: got the class Serial; give an instance of it"),
        (Serial(), {"n_threads": 2}, "engine: got n_threads= together with it"),
        (Serial(), {"scheduler": "tcp://nowhere:1"}, "engine: got scheduler= together with it"),
    ],
)
def test_what_is_no_engine_is_refused_by_what_it_lacks(engine, more, message):
    for call in (bigsmic.fit, bigsmic.plan):
        with pytest.raises(InputError, match=message):
            call(X, 3, engine=engine, **more)
