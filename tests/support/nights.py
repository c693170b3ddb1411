"""A machine whose archive grows night by night, and what kills those who work on it."""

import numpy as np
import zarr

from bigsmic import Result
from bigsmic.nightly import nightly
from bigsmic.store.objects import LocalBytes

CENTERS = np.array([[0, 0, 0], [12, 0, 0], [0, 12, 0], [0, 0, 12], [12, 12, 12]], float)


class Machine:
    """An archive of rows of some regimes.

    Parameters
    ----------
    path : Path
    seed : int
    """

    def __init__(self, path, seed):
        self.rng, self.path, self.regimes, self.shift = np.random.default_rng(seed), path, [0, 1, 2], 0.0
        self.array = zarr.create_array(path, shape=(0, 3), dtype="f4", chunks=(64, 3))

    def night(self, rows):
        """Append rows of a night, each regime for some time."""
        which = self.rng.choice(self.regimes, size=rows)
        if rows:
            self.array.append((CENTERS[which] + self.shift + self.rng.normal(size=(rows, 3))).astype("f4"))

    def record(self, samples, loudness=10.0, dead=()):
        """Append samples of a recording that is loud every other hundred; channels that are dead show 0."""
        n = self.array.shape[0]
        loud = 1 + (loudness - 1) * (np.arange(n, n + samples) // 100 % 2)
        X = loud[:, None] * self.rng.normal(size=(samples, 3))
        X[:, list(dead)] = 0
        self.array.append(X.astype("f4"))


def written(folder, text):
    """A job file."""
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


def job(folder, text="", fit="c = 3\nt = 5\nshrinkage = 0", refit="", top=""):
    """A job file for the archive of a machine in the same folder."""
    return written(
        folder, f'archive = "machine.zarr"\nfolder = "nights"\n{top}\n{text}[fit]\n{fit}\n[refit]\n{refit}\n'
    )


def finish(file, killer=None):
    """Do what is due, again and again until no call is killed; how often one was."""
    kills = 0
    while True:
        try:
            with killer or Killer(None):
                nightly(file)
        except Killed:
            kills += 1
        else:
            return kills


def labels_of(folder):
    """Labels of the archive by the latest run."""
    return Result.open(folder / "latest").archive_labels()


class Killed(BaseException):
    """As if the process had been killed: nothing catches it on purpose."""


class Killer:
    """Kills at writes, after numbers of them that are drawn.

    Parameters
    ----------
    seed : int or None
        None: kills nothing.
    mean : int
        Writes from one kill to the next.
    """

    def __init__(self, seed, mean=100):
        self.rng, self.mean = None if seed is None else np.random.default_rng(seed), mean

    def __enter__(self):
        self.original = LocalBytes.set
        left = np.inf if self.rng is None else self.rng.geometric(1 / self.mean)
        dead = False

        def set_or_die(objects, key, data):
            nonlocal left, dead
            if "lease" not in key:
                left -= 1
                dead = dead or left <= 0
            if dead:
                raise Killed
            return self.original(objects, key, data)

        LocalBytes.set = set_or_die

    def __exit__(self, *error):
        LocalBytes.set = self.original
