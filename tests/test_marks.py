"""A test that is marked as a unit test starts nothing."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
from distributed import Client

import bigsmic

STARTS = {
    "fit": lambda: bigsmic.fit(np.eye(9), 2, method="rim"),
    "estimator": lambda: bigsmic.RIM(2).fit(np.eye(9)),
    "process": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "fork": lambda: multiprocessing.get_context("fork").Process().start(),
    "client": lambda: Client("tcp://127.0.0.1:9"),
}


@pytest.mark.unit
@pytest.mark.parametrize("what", STARTS)
def test_a_unit_test_starts_nothing(what):
    with pytest.raises(pytest.fail.Exception, match="in a unit test"):
        STARTS[what]()
