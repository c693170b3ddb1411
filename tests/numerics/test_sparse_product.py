import os
import re
import subprocess
import sys
import zlib

import numba
import numpy as np
import pytest

from bigsmic.numerics.eigen import sparse_product
from bigsmic.numerics.eigen.sparse_product import Rows, multiply
from bigsmic.numerics.graph.affinity import KernelBlock

FACTORS = (2.0, 0.5, 1.0)
OF_ANOTHER_PROCESSOR = """
import test_sparse_product
print(test_sparse_product.checksum())
"""


def random_block(lo=40, hi=100, n=200, dtype=np.float32, seed=0):
    """A block with rows of no entry, of one, and of many, and half of its columns in the halo."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, hi - lo)
    lengths[:2] = 0, 1
    halo = np.sort(rng.choice(np.r_[0:lo, hi:n], 50, replace=False))
    indices = rng.integers(0, hi - lo + len(halo), lengths.sum()).astype(np.int32)
    data = rng.standard_normal(len(indices)).astype(dtype)
    return KernelBlock(lo, hi, halo, np.append(0, np.cumsum(lengths)), indices, data)


def entry_by_entry(block, X, Y):
    """Every product and every sum rounded on its own, in the order of the entries."""
    a, b, g = (X.dtype.type(factor) for factor in FACTORS)
    touched = np.concatenate([X[block.lo : block.hi], X[block.halo]])
    out = np.zeros_like(Y)
    for i in range(len(out)):
        for p in range(block.indptr[i], block.indptr[i + 1]):
            out[i] = out[i] + block.data[p] * touched[block.indices[p]]
        out[i] = a * out[i] - b * touched[i] - g * Y[i]
    return out


def operands(width, dtype=np.float32):
    rng = np.random.default_rng(1)
    return rng.standard_normal((200, width)).astype(dtype), rng.standard_normal((60, width)).astype(dtype)


def checksum(width=11):
    """Of a product, whatever the processor."""
    block, (X, out) = random_block(), operands(width)
    multiply(block, FACTORS, Rows(X, X[:0], slice(40, 100), block.halo), out, out)
    return zlib.crc32(out.tobytes())


@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 31, 32, 57])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_column_is_summed_in_the_order_of_the_entries(width, dtype):
    block, (X, Y) = random_block(dtype=dtype), operands(width, dtype)
    expected = entry_by_entry(block, X, Y)
    for cut in (200, 120):  # rows that are here, and rows that others have lent
        out = np.full_like(Y, np.nan)
        multiply(block, FACTORS, Rows(X[:cut], X[cut:], slice(40, 100), block.halo), Y, out)
        np.testing.assert_array_equal(out, expected)
    multiply(block, FACTORS, Rows(X, X[:0], slice(40, 100), block.halo), Y, Y)
    np.testing.assert_array_equal(Y, expected)


def test_a_block_without_halo():
    block, (X, _) = random_block(), operands(8)
    X, Y = X[40:100], X[100:160].copy()
    block = block._replace(lo=0, hi=60, halo=block.halo[:0], indices=block.indices % 60)
    expected = entry_by_entry(block, X, Y)
    multiply(block, FACTORS, Rows(X, X[:0], slice(0, 60), block.halo), Y, Y)
    np.testing.assert_array_equal(Y, expected)


def test_sums_stay_in_vector_registers_and_are_never_fused():
    anew = numba.njit(sparse_product._multiply.py_func)  # what comes from the cache cannot be inspected
    block, (X, out) = random_block(), operands(8)
    anew(block[3:], (np.float32(1),) * 3, (X, out), out, (False,) * 8)
    assembly = "".join(anew.inspect_asm().values())
    assert not re.search(r"\bvfn?m(add|sub)", assembly)
    assert "NRT_MemInfo_alloc" not in assembly  # of no array of sums


@pytest.mark.slow
def test_any_processor_gives_the_same_bits(tmp_path):
    environment = os.environ | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", OF_ANOTHER_PROCESSOR], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [str(checksum())], done.stderr
    # a third process takes what the second one has compiled
    compiled = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    subprocess.run([sys.executable, "-c", OF_ANOTHER_PROCESSOR], env=environment, check=True, capture_output=True)
    assert compiled
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")} == compiled
