"""What a caller has set for NumPy's errors of floats does not end a call."""

import numpy as np
import pytest

import bigsmic
from bigsmic.datasets import tetrodes

X, TRUTH = tetrodes(900, 3, seed=1)


@pytest.fixture
def strict():
    """Every error raises, as users set it to find their own."""
    with np.errstate(all="raise"):
        yield


@pytest.mark.filterwarnings("ignore:sigma")  # of MWCA in so many columns
@pytest.mark.parametrize("method", ["smic", "mic", "rim", "kernel_rim", "mwca", "mspc"])
def test_fits_and_predictions(strict, method):
    result = bigsmic.fit(X, 3, method=method, n_threads=1)
    assert result.predict(X[:50]).shape == (50,)


def test_a_fit_without_a_number_and_its_cut(strict):
    result = bigsmic.fit(X, n_threads=1)
    assert result.cut(2).labels.shape == (900,)
    assert np.isfinite(result.lsmi()).all()


def test_lsmi_of_labels(strict):
    assert np.isfinite(bigsmic.lsmi(X, TRUTH).value)


def test_chunks(strict):
    learner = bigsmic.RIM(n_clusters=3, random_state=0)
    for lo in range(0, 900, 300):
        learner.partial_fit(X[lo : lo + 300])
    assert learner.predict_proba(30 * X[:10]).shape == (10, 3)


def test_simulated_spikes(strict):
    np.testing.assert_array_equal(tetrodes(900, 3, seed=1)[0], X)


def test_what_is_set_comes_back():
    with np.errstate(all="raise"):
        before = np.geterr()
        bigsmic.fit(X[:200], 2, n_threads=1)
        assert np.geterr() == before
