import errno
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core import caching

from bigsmic.numerics import compiled
from bigsmic.numerics.frozen import frozen

SMALL_FIT = """
import json, sys
import numpy as np
import bigsmic
from numba.core.dispatcher import Dispatcher

X = np.random.default_rng(0).standard_normal((900, 4)).astype(np.float32)
X[::3] += 6
result = bigsmic.fit(X, 2, n_threads=1)
modules = [module for name, module in sys.modules.items() if name.startswith("bigsmic")]
found = {value for module in modules for value in vars(module).values() if isinstance(value, Dispatcher)}
print(json.dumps({f"{f.__module__}.{f.__name__}": len(f.signatures) for f in found}))
"""


def test_a_fit_compiles_nothing_twice(tmp_path):
    nothing_compiled = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}  # of what is cached, no inner functions show
    call = [sys.executable, "-c", SMALL_FIT]
    done = subprocess.run(call, capture_output=True, text=True, check=True, env=nothing_compiled)
    counts = json.loads(done.stdout)
    assert {name: count for name, count in counts.items() if count > 1} == {}
    assert 20 < sum(counts.values()) < 37
    assert list(tmp_path.rglob("*.nbi"))  # which other processes find


def add(a, b):
    return a + b


def test_kernels_are_compiled_where_no_folder_can_be_written(monkeypatch, caplog):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    compiled._tell.cache_clear()
    assert compiled.compiled(add)(1, 2) == compiled.compiled_sum(add)(1, 2) == 3
    assert [record.message.count("NUMBA_CACHE_DIR") for record in caplog.records] == [1]


def test_kernels_run_where_the_disk_of_the_cache_is_full(monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(caching.IndexDataCacheFile, "save", full)
    compiled._tell.cache_clear()
    assert compiled.compiled(add)(1, 2) == 3
    assert "No space left on device" in caplog.text


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(3, 2).T, [[1, 2], [3, 4]]])
def test_frozen(array):
    found = frozen(array)
    np.testing.assert_array_equal(found, array)
    assert found.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1
    if isinstance(array, np.ndarray):
        assert array.flags.writeable
        assert np.shares_memory(found, array) == array.flags.c_contiguous
