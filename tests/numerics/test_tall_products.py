"""Products of tall matrices beside those of float64, for every number of columns around that of registers."""

import numpy as np
import pytest

from bigsmic.numerics.eigen import tall_products
from bigsmic.numerics.eigen.tall_products import TILE, gram, inner, subtract


def matrices(n, k, w, dtype):
    rng = np.random.default_rng(1000 * k + w)
    return (
        np.asfortranarray(rng.standard_normal((n, k)).astype(dtype)),
        rng.standard_normal((k, w)).astype(dtype),
        rng.standard_normal((n, w)).astype(dtype),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("w", [0, 1, 7, 8, 9, 17])
@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 15, 16, 91])
@pytest.mark.parametrize("n", [1, TILE - 1, 2 * TILE + 3])
def test_products_are_those_of_float64_up_to_rounding(n, k, w, dtype):
    V, S, W = matrices(n, k, w, dtype)
    exact = V.astype(np.float64), S.astype(np.float64), W.astype(np.float64)
    slack = {"rtol": 0, "atol": 60 * np.finfo(dtype).eps * np.sqrt(n + k)}

    np.testing.assert_allclose(inner(V, W), exact[0].T @ exact[2], **slack)
    np.testing.assert_allclose(gram(W), exact[2].T @ exact[2], **slack | {"atol": 60 * np.finfo(dtype).eps * n})
    subtract(V, S, W)
    np.testing.assert_allclose(W, exact[2] - exact[0] @ exact[1], **slack)


def test_sums_over_tiles_keep_what_one_sum_in_float32_would_lose():
    V, W = np.ones((2**25 + 1, 1), np.float32, order="F"), np.ones((2**25 + 1, 1), np.float32)
    assert inner(V, W) == gram(W) == 2**25 + 1


def test_a_column_has_the_same_bits_whatever_is_multiplied_beside_it():
    V, S, W = matrices(2 * TILE + 3, 41, 19, np.float32)
    whole, left = inner(V, W), W.copy()
    subtract(V, S, left)
    for columns in (slice(0, 3), slice(5, 6), slice(2, 19)):
        part = np.ascontiguousarray(W[:, columns])
        np.testing.assert_array_equal(inner(V, part), whole[:, columns])
        subtract(V, S[:, columns], part)
        np.testing.assert_array_equal(part, left[:, columns])
    np.testing.assert_array_equal(inner(V[:, 8:24], W), whole[8:24])


def test_rows_may_be_read_only_and_lie_in_any_order():
    V, S, W = matrices(TILE + 1, 12, 8, np.float32)
    expected, left = inner(V, W), W.copy()
    subtract(V, S, left)
    V = np.ascontiguousarray(V)
    V.flags.writeable = False
    np.testing.assert_array_equal(inner(V, W), expected)
    subtract(V, S, W)
    np.testing.assert_array_equal(W, left)


def test_few_kernels_are_compiled():
    for k, w in ((3, 2), (8, 8), (20, 11)):
        V, S, W = matrices(TILE + 1, k, w, np.float32)
        inner(V, W)
        subtract(V, S, W)
    for kernel in (tall_products._add_inner, tall_products._subtract_mixture):
        assert len([types for types in kernel.signatures if "float32" in str(types[0])]) == 1
