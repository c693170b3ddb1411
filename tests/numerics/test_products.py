"""Products of matrices, and what BLAS flags in them for nothing."""

import numpy as np
import pytest

from bigsmic.numerics.products import HEIGHT, product, row_product, self_product


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_are_numpy_s_bit_for_bit(dtype, transposed):
    A = np.random.default_rng(0).standard_normal((70, 33)).astype(dtype)
    A = A.T if transposed else A
    np.testing.assert_array_equal(self_product(A), A.T @ A)
    np.testing.assert_array_equal(product(A, A.T[:, :1]), A @ A.T[:, :1])
    np.testing.assert_array_equal(product(A, A[0]), A @ A[0])


class Flagged(np.ndarray):
    """An array whose products set the flag of an invalid operation, and are right."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        np.subtract(np.inf, np.inf)
        return getattr(ufunc, method)(*(np.asarray(x) for x in inputs), **options)


@pytest.mark.parametrize("multiply", [self_product, lambda A: product(A, A)])
def test_a_flag_that_blas_sets_for_nothing_is_no_warning(multiply):
    A = np.eye(3).view(Flagged)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        _ = A.T @ A
    np.testing.assert_array_equal(multiply(A), np.eye(3))


def test_nan_stays():
    A = np.full((4, 2), np.nan)
    assert np.isnan(self_product(A)).all()
    assert np.isnan(product(A, A.T)).all()


@pytest.mark.parametrize("shape", [(120, 50), (784, 50), (2000, 19), (60, 1)])
@pytest.mark.parametrize("n", [0, 1, HEIGHT, 2 * HEIGHT + 3])
def test_a_row_of_a_product_does_not_depend_on_the_others(n, shape):
    random = np.random.default_rng(0)
    A, B = random.standard_normal((n, shape[0])), random.standard_normal(shape)
    whole = row_product(A, B)
    np.testing.assert_allclose(whole, A @ B, atol=1e-12)
    np.testing.assert_array_equal(row_product(np.asfortranarray(A), B), whole)
    np.testing.assert_array_equal(row_product(A[::-1], B)[::-1], whole)
    for i in range(n):
        np.testing.assert_array_equal(row_product(A[i : i + 1], B)[0], whole[i])
