"""What is read of the evidence for a number of clusters."""

import numpy as np
import pytest

from bigsmic.stages import shown_number as shown
from bigsmic.stages.shown_number import NUMBER


class Evidence:
    """A run with the stage `number` alone: by default four labelings that show ten clusters, and agree on them."""

    is_writable = True

    def __init__(self, is_done=True, **changes):
        self.is_done, self.facts = is_done, {
            "n_clusters": 10, "clear": True, "shown": 10, "votes": [10, 10, 10, 11], "common": [],
            "joined": [3], "parts": None, "dense_parts": False, "surer": None, "faint": False,
        } | changes  # fmt: skip
        self.arrays = {
            "numbers": np.arange(2, 40),
            "stability": np.linspace(0.99, 0.61, 38),  # 0.91 at ten
            "weakest": np.arange(38.0, 0, -1),
            "part_of": np.arange(12),
        }

    def done(self, stage, block):
        return self.is_done and (stage, block) == (NUMBER, 0)

    def info(self, stage, block):
        assert self.done(stage, block)
        return self.facts

    def read(self, stage, block, name):
        assert self.done(stage, block)
        return self.arrays[name]

    def agreeing(self, **values):
        """The same with the agreement at some numbers."""
        for number, value in values.items():
            self.arrays["stability"][self.arrays["numbers"] == int(number[1:])] = value
        return self


def test_a_number_counts_if_it_is_clear():
    assert shown.counted(Evidence()) == 10
    assert shown.counted(Evidence(clear=False)) is None
    assert shown.counted(Evidence(is_done=False)) is None


def test_distances_to_noise_are_noted_if_there_is_some():
    assert shown.noise_from(Evidence(noise_from=2.5)) == 2.5
    assert shown.reach(Evidence(reach=1.5)) == 1.5
    for run in (Evidence(), Evidence(is_done=False)):
        assert shown.noise_from(run) == shown.reach(run) == np.inf


@pytest.mark.parametrize(
    ("changes", "n_clusters", "is_shown"),
    [
        ({}, 10, True),
        ({}, 11, False),
        ({"votes": [10, 10, 11, 11]}, 10, True),
        ({"votes": [10, 11, 11, 12]}, 10, False),
        ({"votes": [10, 11, 11, 12], "common": [10, 10, 10, 9]}, 10, True),
        ({"shown": 21, "votes": [20] * 4}, 20, True),
        ({"shown": 22, "votes": [20] * 4}, 20, False),
        ({"shown": 19, "votes": [20] * 4}, 20, True),
        ({"shown": 18, "votes": [20] * 4}, 20, False),
    ],
)
def test_a_number_is_shown_by_half_of_the_labelings_and_about_their_median(changes, n_clusters, is_shown):
    assert shown.is_shown(Evidence(**changes), n_clusters) == is_shown


def test_numbers_that_are_cut_by_distance_or_into_parts_are_noted():
    run = Evidence(parts=3)
    assert [n for n in range(2, 20) if shown.are_joined(run, n)] == [3]
    assert [n for n in range(2, 20) if shown.are_parts(run, n)] == [3]
    assert not any(shown.are_dense_parts(run, n) for n in range(2, 20))
    assert [n for n in range(2, 20) if shown.are_dense_parts(Evidence(parts=3, dense_parts=True), n)] == [3]
    assert not shown.are_parts(Evidence(parts=3, is_done=False), 3)
    np.testing.assert_array_equal(shown.dense_parts(run, 1, 4), [4, 5, 6, 7])


def test_what_is_joined_by_distance_or_a_dense_part_is_plain_whatever_labelings_say():
    run = Evidence(parts=4, dense_parts=True).agreeing(n3=0.0, n4=0.0, n5=0.0)
    assert [n for n in (3, 4, 5) if shown.is_plain(run, n)] == [3, 4]
    assert not shown.is_plain(Evidence(clear=False), 3)


@pytest.mark.parametrize(
    ("changes", "agreement", "agree"),
    [
        ({}, 0.7, True),
        ({}, 0.69, False),
        ({"n_clusters": 8}, 0.0, True),  # as of parts of the graph
        ({"clear": False}, 0.9, False),
        ({"surer": 12, "n_clusters": 12}, 0.7, True),  # valleys separate ten
        ({"surer": 12, "n_clusters": 12}, 0.69, False),
    ],
)
def test_labelings_agree_on_the_clusters_shown_up_to_a_bound(changes, agreement, agree):
    assert shown.agree_on_shown(Evidence(**changes).agreeing(n10=agreement, n12=0.8)) == agree


def test_clusters_are_disputed_if_they_are_not_plain_unless_they_are_parts():
    assert not shown.is_disputed(Evidence(), 10)
    assert shown.is_disputed(Evidence().agreeing(n10=0.7), 10)
    assert not shown.is_disputed(Evidence(parts=4, parts_disputed=False).agreeing(n4=0.0), 4)
    assert shown.is_disputed(Evidence(parts=4, parts_disputed=False).agreeing(n10=0.7), 10)


def test_the_weakest_valley_is_that_between_the_clusters_found():
    run = Evidence()
    assert shown.weakest_shown(run) == run.arrays["weakest"][8]
    assert shown.weakest_shown(Evidence(n_clusters=1)) == np.inf


def test_a_finished_run_that_has_lost_its_evidence_is_not_one_without():
    class Lost(Evidence):
        is_writable = False

        def attribute(self, name):
            return {"valleys": {}}

        def entry(self, stage, block):
            raise LookupError(stage, block)

    with pytest.raises(LookupError, match=r"'number', 0"):
        shown.counted(Lost(is_done=False))


def test_a_finished_run_of_a_fit_that_looks_for_no_valleys_has_no_evidence():
    class Without(Evidence):
        is_writable = False

        def attribute(self, name):
            return {"method": "smic"}

    assert shown.counted(Without(is_done=False)) is None
    Without.attribute = lambda run, name: None
    assert shown.counted(Without(is_done=False)) is None
