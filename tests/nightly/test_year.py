"""A year of nights: an archive that grows and drifts three times, and processes that are killed again and again."""

import numpy as np
import pytest
from nights import Killer, Machine, finish, labels_of, written

from bigsmic.nightly import history

pytestmark = pytest.mark.slow

NIGHTS, ROWS = 365, 60
NEW_REGIME, SHIFT, SHARES = 90, 180, 270
JOB = """\
archive = "machine.zarr"
folder = "nights"
keep = 3
threads = 1

[fit]
t = [3, 5]
n_centers = 40

[refit]
drift = true
every = 120
last = 600
"""


def year(folder, killer=None):
    """The year: labels of the archive, the history, kills, and most runs that were there after a night."""
    folder.mkdir()
    machine, file = Machine(folder / "machine.zarr", seed=3), written(folder, JOB)
    kills = most = 0
    machine.night(600)
    for night in range(NIGHTS):
        if night == NEW_REGIME:
            machine.regimes = [0, 1, 2, 3]
        if SHIFT <= night < SHIFT + 20:
            machine.shift += 0.2
        if night == SHARES:
            machine.regimes = [0, 0, 0, 0, 0, 1, 2, 3]
        kills += finish(file, killer)
        most = max(most, len(list((folder / "nights" / "runs").iterdir())))
        machine.night(ROWS)
    return labels_of(folder / "nights"), history(folder / "nights"), kills, most


@pytest.mark.filterwarnings("ignore::bigsmic.errors.BigsmicWarning")  # of what the data show, night by night
def test_a_year_of_kills_comes_to_what_a_calm_year_comes_to(tmp_path):
    labels, calm, none, _ = year(tmp_path / "calm")
    others, killed, kills, most = year(tmp_path / "killed", Killer(seed=11, mean=70))
    assert none == 0
    assert kills >= 50
    np.testing.assert_array_equal(others, labels)
    columns = [name for name in calm.columns if name not in ("begun", "ended")]
    assert killed[columns].equals(calm[columns])
    assert calm.index.tolist() == list(range(1, NIGHTS + 1))
    assert calm.rows.tolist() == [600 + ROWS * night for night in range(NIGHTS)]
    assert (calm.new_rows[1:] == ROWS).all()
    assert most <= 4  # three, and one to which nothing but `latest` led
    due = calm.index[calm.refit == "drift"] - 1
    for drift in (NEW_REGIME, SHIFT, SHARES):
        assert any(drift <= night < drift + 25 for night in due), (drift, due)
