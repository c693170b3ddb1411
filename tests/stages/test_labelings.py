"""Labelings are made together: rounds of moves, and passes over the rows, are as few as those of one."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from small_fits import FAST, cut_small

import bigsmic
from bigsmic.numerics.labeling.local_moving import N_SWEEPS
from bigsmic.numerics.row_blocks import LocalGroup
from bigsmic.runtime.job import Job
from bigsmic.stages import labelings

OPTIONS = FAST | {"widths": (1.25, 1.5, 2), "assignment": "merge", "normalization": "symmetric", "valleys": False}


@pytest.fixture
def rows(monkeypatch):
    cut_small(monkeypatch)
    return make_blobs(700, 6, centers=6, cluster_std=3.0, random_state=0)[0].astype(np.float32)


def test_labelings_of_an_eigenproblem_move_in_the_same_rounds(rows, monkeypatch):
    moves, call_sum = Counter(), LocalGroup.call_sum
    monkeypatch.setattr(
        LocalGroup, "call_sum", lambda group, *calls: (moves.update([calls[-1][0]]), call_sum(group, *calls))[1]
    )
    result = bigsmic.fit(rows, 6, **OPTIONS)
    n_eigenproblems = len(result.diagnostics["eigen"])
    assert moves["begin"] == n_eigenproblems
    assert moves["move"] == n_eigenproblems * N_SWEEPS


def test_frames_of_an_eigenproblem_are_found_in_two_passes(rows, monkeypatch):
    passes = Counter()
    for make in (Job.map_blocks, Job.sum_blocks):

        def counted(job, stage, *arguments, make=make):
            passes[stage.split(".")[0]] += 1
            return make(job, stage, *arguments)

        monkeypatch.setattr(Job, make.__name__, counted)
    result = bigsmic.fit(rows, 6, **OPTIONS)
    assert passes["frame"] == 2 * len(result.diagnostics["eigen"])


def test_gram_matrices_that_are_large_are_summed_alone(rows, monkeypatch):
    together = bigsmic.fit(rows, 6, **OPTIONS)
    monkeypatch.setattr(labelings, "GRAM_BYTES", 1)
    alone = bigsmic.fit(rows, 6, **OPTIONS)
    np.testing.assert_array_equal(alone.labels, together.labels)
    np.testing.assert_array_equal(alone.posterior[:], together.posterior[:])


def test_actors_of_one_process_wait_for_each_other_while_they_find_their_halos(monkeypatch):
    both = Barrier(2, timeout=10)
    monkeypatch.setattr(labelings.kernel_matrix, "read_degree", lambda *args: np.ones(2))
    monkeypatch.setattr(labelings.kernel_matrix, "loader", lambda *args: None)
    context = SimpleNamespace(run=SimpleNamespace(read=lambda *args: np.arange(2)), settings=SimpleNamespace(seed=0))
    shard = SimpleNamespace(blocks=range(1), halo=lambda of_block: None)
    eigenproblem = SimpleNamespace(graph=SimpleNamespace(name="normalized.t3"))
    actors = [labelings.StoredLabels(context, shard, eigenproblem, True) for _ in range(2)]
    shard.halo = lambda of_block: both.wait()
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda actor: actor.graph_halo, actors))  # the barrier breaks if one waits for a lock
    assert sorted(found) == [0, 1]
