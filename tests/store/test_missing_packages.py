"""Without the package that opens its URLs, a location is refused with the name of the extra that brings it."""

import sys

import numpy as np
import pytest
from fsspec.registry import _registry as opened_before

import bigsmic
from bigsmic.errors import InputError, RunError
from bigsmic.features import windows
from bigsmic.store import WrittenFile


@pytest.fixture(autouse=True)
def missing(monkeypatch):
    for protocol, package in (("s3", "s3fs"), ("gs", "gcsfs")):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.delitem(opened_before, protocol, raising=False)


X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
EXTRA = r"; pip install 'bigsmic\[s3\]'$"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: bigsmic.fit("s3://bucket/rows.zarr", 2), InputError),
        (lambda: bigsmic.fit("s3://bucket/rows.csv", 2), InputError),
        (lambda: bigsmic.plan("simplecache::s3://bucket/rows.zarr", 2), InputError),
        (lambda: windows("s3://bucket/samples.zarr", 10, out="windows.zarr", rate=1), InputError),
        (lambda: bigsmic.fit(X, 2, out="s3://bucket/run.zarr"), RunError),
        (lambda: bigsmic.Result.open("s3://bucket/run.zarr"), RunError),
        (lambda: WrittenFile("s3://bucket/report.html"), RunError),
    ],
    ids=["rows", "table", "chain", "samples", "out", "run", "report"],
)
def test_the_extra_for_s3_is_named(call, error):
    with pytest.raises(error, match=EXTRA):
        call()


def test_packages_that_no_extra_brings_are_named_by_fsspec():
    with pytest.raises(RunError, match=r"install gcsfs .*; install what it names$"):
        bigsmic.fit(X, 2, out="gs://bucket/run.zarr")
