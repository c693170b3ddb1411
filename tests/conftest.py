"""What tests of the pipeline share: data that a fit takes half a second for, cut into many blocks all the same."""

from dataclasses import replace

import hypothesis
import numpy as np
import pytest
from sklearn.datasets import make_blobs

import bigsmic.methods.smic.method
import bigsmic.methods.smic.planning
import bigsmic.runtime.context
from bigsmic.stages.checkpoints import INTERVAL

hypothesis.settings.register_profile(  # how long an example takes is the machine's load
    "any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any load")

FAST = {"t": (3, 5), "n_centers": 40, "n_threads": 1}
"""Options of a fit that is not about scores."""


@pytest.fixture(scope="session", autouse=True)
def every_checkpoint():
    """Have solves that take no minute write their states all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(INTERVAL, "0")
        yield


def cut_small(patch, group=300):
    """Have blocks of input of 256 rows, and groups of so many members."""
    patch.setattr(bigsmic.runtime.context, "SOURCE_BYTES", 1)
    for module in (bigsmic.runtime.context, bigsmic.methods.smic.planning):
        patch.setattr(module, "group_rows", lambda n, d: group)


def keep_on_disk(patch):
    """Have plans that allow one task at a time, with basis and kernel on disk, and one LSMI width a pass."""
    plan = bigsmic.methods.smic.planning.plan

    def changed(*args, **options):
        found = plan(*args, **options)
        stages = {name: replace(stage, max_concurrency=1) for name, stage in found.stages.items()}
        return replace(found, stages=stages, n_gammas=1, basis_in_memory=False, kernel_in_memory=False)

    for module in (bigsmic.methods.smic.planning, bigsmic.methods.smic.method):
        patch.setattr(module, "plan", changed)


@pytest.fixture
def many_blocks(monkeypatch):
    """Cut what is small into many blocks."""
    cut_small(monkeypatch)


@pytest.fixture(scope="session")
def blobs():
    """Seven hundred rows around four centres, which touch: X, y."""
    X, y = make_blobs(700, 5, centers=4, cluster_std=[1.5, 2, 2.5, 1.8], random_state=4, center_box=(-5, 5))
    return X.astype(np.float32), y
