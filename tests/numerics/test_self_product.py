"""The product of a matrix with its own transpose."""

import numpy as np
import pytest

from bigsmic.numerics.self_product import self_product


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_it_is_numpy_s_bit_for_bit(dtype, transposed):
    A = np.random.default_rng(0).standard_normal((70, 33)).astype(dtype)
    A = A.T if transposed else A
    np.testing.assert_array_equal(self_product(A), A.T @ A)


def test_a_flag_that_blas_sets_for_nothing_is_no_warning(monkeypatch):
    class Flagged(np.ndarray):
        """An array whose products set the flag of an invalid operation, and are right."""

        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            np.subtract(np.inf, np.inf)
            return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **options)

    A = np.eye(3).view(Flagged)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        _ = A.T @ A
    np.testing.assert_array_equal(self_product(A), np.eye(3))


def test_nan_stays():
    assert np.isnan(self_product(np.full((4, 2), np.nan))).all()
