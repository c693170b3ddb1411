"""What tests of the pipeline share: data that a fit takes half a second for, cut into many blocks all the same."""

import hypothesis
import numpy as np
import pytest
from sklearn.datasets import make_blobs
from small_fits import cut_small

from bigsmic.stages.checkpoints import INTERVAL

hypothesis.settings.register_profile(  # how long an example takes is the machine's load
    "any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any load")


@pytest.fixture(scope="session", autouse=True)
def every_checkpoint():
    """Have solves that take no minute write their states all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(INTERVAL, "0")
        yield


@pytest.fixture
def many_blocks(monkeypatch):
    """Cut what is small into many blocks."""
    cut_small(monkeypatch)


@pytest.fixture(scope="session")
def blobs():
    """Seven hundred rows around four centres, which touch: X, y."""
    X, y = make_blobs(700, 5, centers=4, cluster_std=[1.5, 2, 2.5, 1.8], random_state=4, center_box=(-5, 5))
    return X.astype(np.float32), y
