"""Cuts of row blocks into tasks and parts of sums."""

import numpy as np
import pytest

from bigsmic.numerics.row_blocks import LONGEST_RUN, MAX_TASKS, shares, stretches

NUMBERS = [0, 1, 7, 40, 255, 256, 257, 1221, 122_071]


@pytest.mark.parametrize("n_threads", [1, 2, 64, 1000])
@pytest.mark.parametrize("n", NUMBERS)
def test_threads_take_all_blocks_in_few_runs_the_long_ones_first(n, n_threads):
    runs = shares(n, n_threads)
    assert [i for run in runs for i in run] == list(range(n))
    lengths = [len(run) for run in runs]
    assert len(runs) <= MAX_TASKS
    assert np.all(np.diff(lengths) <= 0)
    assert all(length <= max(LONGEST_RUN, -(-n // MAX_TASKS)) for length in lengths)


def test_a_thread_is_not_late_by_more_than_a_block_where_blocks_take_equal_time():
    for n_threads in (2, 3, 8):
        for n in (20, 40, 100, 200):
            busy = np.zeros(n_threads)
            for run in shares(n, n_threads):
                busy[busy.argmin()] += len(run)
            assert np.ptp(busy) <= 1


@pytest.mark.parametrize("n", NUMBERS)
def test_stretches_of_a_sum_are_nodes_of_its_tree(n):
    runs = stretches(n, 10)
    assert [i for run in runs for i in run] == list(range(n))
    assert len(runs) <= 10
    assert all(run.start % len(runs[0]) == 0 and len(runs[0]).bit_count() == 1 for run in runs)
