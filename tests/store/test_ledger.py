"""What a run says of itself is input: sealed, checked at one door, and refused by the name of the file."""

import json
import shutil

import numpy as np
import pytest
from damage import finished

import bigsmic
from bigsmic import store
from bigsmic.errors import CorruptBlockError, RunError, RunVersionError
from bigsmic.store.ledger import read_entry, seal, write_entry

pytestmark = pytest.mark.filterwarnings("ignore::bigsmic.errors.BigsmicWarning")

WHOSE = ("0" * 32, "stage", 3)
META = {"dtype": "<f4", "shape": [3, 2], "bounds": [0, 3], "crc32": [7]}


def entry(**changes):
    return {"arrays": {"X": META | changes}, "info": {}}


def test_an_entry_comes_back_for_its_own_block_and_run_alone():
    raw = write_entry(WHOSE, entry())
    assert read_entry(WHOSE, raw) == entry()
    for other in (("1" * 32, "stage", 3), ("0" * 32, "edge", 3), ("0" * 32, "stage", 4)):
        assert read_entry(other, raw) is None


def test_an_entry_without_a_seal_is_none():
    node = json.loads(write_entry(WHOSE, entry()))
    del node["attributes"]["crc32"]
    assert read_entry(WHOSE, json.dumps(node).encode()) is None


@pytest.mark.parametrize(
    "odd",
    [
        entry(shape=[10**18, 10**18]),
        entry(shape=[-1, 2]),
        entry(shape=[True, 2]),
        entry(shape="32"),
        entry(shape=[]) | {"arrays": {"X": META | {"shape": [], "crc32": [1, 2]}}},
        entry(dtype="|O8"),
        entry(dtype="<i16"),
        entry(dtype=["<f4"]),
        entry(dtype="f4,f4"),
        entry(bounds=[0, 4]),
        entry(bounds=[3, 0]),
        entry(bounds=[0]),
        entry(crc32=[]),
        entry(crc32=[None]),
        {"arrays": {"../X": META}, "info": {}},
        {"arrays": {"X": None}, "info": {}},
        {"arrays": {"X": {}}, "info": {}},
        {"arrays": [], "info": {}},
        {"arrays": {}},
        {"info": {}},
        [],
        None,
    ],
    ids=str,
)
def test_what_cannot_be_an_entry_is_none_though_it_be_sealed(odd):
    assert read_entry(WHOSE, write_entry(WHOSE, odd)) is None


@pytest.mark.parametrize("raw", [None, b"", b"{", b"[]", b'{"attributes": 3}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_of_a_group_is_none(raw):
    assert read_entry(WHOSE, raw) is None


def test_a_shape_that_is_not_stored_takes_no_memory(tmp_path):
    run = store.Run(tmp_path / "run")
    run.bind({})
    run.write("stage", 0, {"X": np.ones(4)})
    where = tmp_path / "run" / "stage" / "0000000" / "zarr.json"
    huge = {"arrays": {"X": {"dtype": "<f8", "shape": [1 << 50], "bounds": [0, 1 << 50], "crc32": [7]}}, "info": {}}
    where.write_bytes(write_entry((run.id, "stage", 0), huge))
    with pytest.raises(CorruptBlockError, match=r"X of block 0 .* is missing or truncated"):
        run.read("stage", 0, "X")
    with pytest.raises(CorruptBlockError, match=r"Y of block 0 .* is not in the ledger"):
        run.read("stage", 0, "Y")
    run.close()


# -- attributes of a run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return finished("mspc", tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run(whole, tmp_path):
    shutil.copytree(whole.out, tmp_path / "run")
    return tmp_path / "run"


def edit(path, change):
    """Change the attributes in some metadata."""
    node = json.loads(path.read_text())
    change(node["attributes"])
    path.write_text(json.dumps(node))


def sealed(name, value):
    """Change an attribute, and seal it as if bigsmic had written it."""

    def change(attributes):
        attributes[name] = value(attributes[name])
        attributes["crc32"][name] = seal(attributes["run"], name, attributes[name])

    return change


NOT_A_FIT = r"run/zarr\.json has no settings that this version of bigsmic can read"
ATTRIBUTES = {
    "format of text": (lambda a: a.update(bigsmic_format="2"), r"bigsmic_format in .*run/zarr\.json is not a number"),
    "format of truth": (lambda a: a.update(bigsmic_format=True), r"bigsmic_format in .*run/zarr\.json is not a number"),
    "summary of text": (
        lambda a: a.update(summary="fine"),
        r"'summary' in .*run/zarr\.json does not match its checksum",
    ),
    "summary": (lambda a: a["summary"].update(rows=3), r"'summary' in .*run/zarr\.json .*run fit on it again"),
    "identity": (lambda a: a["identity"]["input"].update(rows=3), r"'identity' in .*run/zarr\.json .*another out="),
    "run": (lambda a: a.update(run="0" * 32), r"'identity' in .*run/zarr\.json does not match its checksum"),
    "no run": (lambda a: a.pop("run"), r"'identity' in .*run/zarr\.json does not match its checksum"),
    "no seals": (lambda a: a.pop("crc32"), r"'identity' in .*run/zarr\.json does not match its checksum"),
    "odd seals": (lambda a: a.update(crc32=[1]), r"'identity' in .*run/zarr\.json does not match its checksum"),
    "no identity": (lambda a: a.pop("identity"), r"is not a bigsmic run; give the out= of a fit"),
    "unknown setting": (sealed("identity", lambda i: i | {"settings": i["settings"] | {"gravity": 9.8}}), NOT_A_FIT),
    "unknown method": (sealed("identity", lambda i: i | {"settings": {"method": "magic"}}), NOT_A_FIT),
    "no settings": (sealed("identity", lambda i: {"input": i["input"]}), NOT_A_FIT),
    "rows of text": (sealed("identity", lambda i: i | {"input": {"rows": "3", "columns": 3}}), NOT_A_FIT),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_damaged_attributes_are_refused_by_the_name_of_the_file(run, name):
    change, message = ATTRIBUTES[name]
    edit(run / "zarr.json", change)
    with pytest.raises(RunError, match=message):
        bigsmic.Result.open(run)


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7])
def test_a_run_of_an_earlier_format_is_refused_with_what_to_do(run, version):
    edit(run / "zarr.json", lambda attributes: attributes.update(bigsmic_format=version))
    for ask in (lambda: bigsmic.Result.open(run), lambda: store.Run(run)):
        with pytest.raises(RunVersionError, match=rf"has format {version}, .*reads format 8: fit again with another"):
            ask()


def test_a_run_has_a_name_of_its_own(whole, tmp_path):
    again = finished("mspc", tmp_path / "again")
    ids = {store.Run(out, writable=False).id for out in (whole.out, again.out)}
    assert len(ids) == 2
    assert all(len(name) == 32 for name in ids)


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node.update(codecs=[{"name": "magic"}]),
        lambda node: node.update(shape=[400]),
        lambda node: node.update(data_type="float64"),
        lambda node: node["chunk_grid"]["configuration"].update(chunk_shape=[1 << 40]),
        lambda node: node.update(node_type="group"),
        lambda node: node.clear(),
    ],
)
def test_damaged_metadata_of_the_top_are_refused_by_the_name_of_the_file(run, change):
    path = run / "labels" / "zarr.json"
    node = json.loads(path.read_text())
    change(node)
    path.write_text(json.dumps(node))
    with pytest.raises(
        RunError, match=r"run/labels.* does not describe an array of int32 \(420,\); run fit on it again"
    ):
        _ = bigsmic.Result.open(run).labels


def test_a_symbolic_link_for_metadata_is_refused(run):
    (run / "zarr.json").rename(run / "other.json")
    (run / "zarr.json").symlink_to(run / "other.json")
    with pytest.raises(RunError, match=r"run/zarr\.json is a symbolic link; a run has no links: remove it"):
        bigsmic.Result.open(run)
