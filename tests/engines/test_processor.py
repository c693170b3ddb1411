"""Processors of a cluster: which of them compute the same bits."""

import json
import os
import pickle
import subprocess
import sys

from bigsmic.engines.processor import Processor, differences

OLD = Processor("Old", ("Haswell",), "haswell", ("avx2", "fma"), ("X86_V3",))
NEW = Processor("New", ("SkylakeX",), "icelake-server", ("avx2", "avx512f", "fma"), ("X86_V3", "X86_V4"))


def test_this_one_is_known():
    here = Processor.here()
    assert here.model
    assert here.blas
    assert here.numba
    assert pickle.loads(pickle.dumps(here)) == here


def test_processors_of_one_type_need_no_word():
    assert differences(NEW, [NEW, NEW]) == ""
    assert differences(NEW, [NEW._replace(model="another name of the same")]) == ""


def test_types_are_named_with_their_workers():
    text = differences(NEW, [NEW, OLD, NEW])
    assert "2 workers on New (BLAS SkylakeX, numba icelake-server" in text
    assert "1 worker on Old (BLAS Haswell, numba haswell" in text
    assert "this process" not in text


def test_this_process_counts_as_well():
    assert differences(NEW, [OLD]) == f"1 worker on {OLD}; this process on {NEW}"


def test_what_the_environment_chooses_is_what_counts():
    code = "import json; from bigsmic.engines.processor import Processor; print(json.dumps(Processor.here()))"
    chosen = {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Haswell"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | chosen, capture_output=True, text=True, check=True
    )
    _, blas, numba, vectors, _ = json.loads(done.stdout)
    assert (numba, vectors) == ("generic", [])
    if "Haswell" in blas or Processor.here().blas != tuple(blas):
        assert blas == ["Haswell"]
