"""docs/run-directory.md says of a run what is there."""

import json
import re
import zlib
from typing import NamedTuple

import numpy as np
import pytest
import zarr
from locations import ROOT
from sklearn.datasets import make_moons

import bigsmic
from bigsmic.errors import ConvergenceWarning
from bigsmic.features import windows
from bigsmic.stages import dense_parts

PAGE = (ROOT / "docs" / "run-directory.md").read_text()
CODES = {"any": "any"} | {np.dtype(code).str: code for code in ("f4", "f8", "i4", "i8", "u2", "u1")}


class Stage(NamedTuple):
    arrays: dict
    info: set
    kept: bool


def documented():
    """Stages of the table, by name; arrays with the dtypes that they may have."""
    table = PAGE.split("## The stages")[1].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table if line.startswith("| `")]
    return {row[0].strip("`"): Stage(arrays_of(row[2]), names_of(row[3]), row[4] == "kept") for row in rows}


def arrays_of(cell):
    found = re.findall(r"((?:`[\w.]+` ?)+)(any|\w\d(?: or \w\d)*)", cell)
    return {name: types.split(" or ") for names, types in found for name in names_of(names)}


def names_of(cell):
    return set(re.findall(r"`([\w.]+)`", cell))


def pattern(stage):
    """Name in the table of a stage, or of an array that there is for each t or eigenvector set."""
    stage = re.sub(r"^restart\..*\.[01]$", "restart.<eigenproblem>.<0 or 1>", stage)
    stage = re.sub(r"^restart\..*\.\d+\.\d+\.locked$", "restart.<eigenproblem>.<turn>.<column>.locked", stage)
    stage = re.sub(
        r"^(weights|degree|matrix|basis|labeling\.groups|labeling|merged)\.\w+\.t\d+(\.s[\d.]+)?$",
        r"\1.<eigenproblem>",
        stage,
    )
    stage = re.sub(r"^frame\..*$", "frame.<labeling>", stage)
    stage = re.sub(r"^(classes|columns|gains|merges|ratios|weakest|weights)\.\d+$", r"\1.0", stage)
    return re.sub(r"^(labels|sizes|first)\.t\d+$", r"\1.t5", stage)


def ledger(block):
    return json.loads((block / "zarr.json").read_text())["attributes"]["ledger"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, and the stages that were there at some time, with the arrays that blocks of them had.

    Beside it lie ``few``, a run of rows of which few can be told apart, ``joined``, another, ``open``, one that was
    given no number of clusters, ``hubs``, one of two clusters of which one lies within the other, ``bent``, one of bent
    clusters, ``again``, another that has begun again, ``no_valleys``, one of labelings of all kinds, ``selected``, of
    windows that are not all valid, and ``numbered``, whose clusters have the numbers of another run and a name.
    """
    out = tmp_path_factory.mktemp("run") / "run.zarr"
    rng = np.random.default_rng(0)
    # fewer rows than a fine set needs, so that no solve goes on
    X = np.concatenate([rng.standard_normal((300, 8)), rng.standard_normal((290, 8)) + 4]).astype("f4")
    seen: dict = {}

    def look(stage, done, total):
        for path in out.glob("*/[0-9]*/*/zarr.json"):
            seen.setdefault(path.parents[2].name, set()).add(path.parent.name)

    options = {"t": (3, 5), "n_centers": 30, "n_threads": 1, "progress": look}
    with pytest.warns(ConvergenceWarning, match="no more than 2 rows differ"):
        bigsmic.fit(X[:2].repeat(300, axis=0), 3, out=(out := out.with_name("few")), **options)
    bigsmic.fit(X[:3].repeat(200, axis=0), 2, out=(out := out.with_name("joined")), **options)
    signal = rng.standard_normal((8000, 1))
    signal[4000:] *= 9
    signal[100] = np.nan
    made = windows(signal, 20, features="summary", out=out.with_name("windows"))
    selected = bigsmic.fit(made, 2, rows=slice(320), out=(out := out.with_name("selected")), **options)
    selected.update(made)
    seen["updates"] = {"labels", "posterior", "novelty"}
    seen["drift_reference"] = {"counts", "sampled", "sums", "novel", "spreads"}
    one_blob = rng.standard_normal((590, 8))
    moons = make_moons(2000, noise=0.05, random_state=0)[0]
    scattered = rng.uniform(moons.min(axis=0), moons.max(axis=0), (200, 2))
    bent = np.concatenate([moons, scattered])
    bigsmic.fit(bent, out=(out := out.with_name("bent")), **options | {"t": (5, 10)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_parts, "of_pieces", lambda *_: None)
        bigsmic.fit(bent, out=(out := out.with_name("again")), **options | {"t": (5, 10)})
    wide = (np.repeat([0.5, 2], 300)[:, None] * rng.standard_normal((600, 30))).astype("f4")
    for name, rows, c, others in (
        ("hubs", wide, 2, {"valleys": False, "widths": (1.5, 2)}),
        ("open", X, None, {}),
        ("no_valleys", one_blob, 2, {}),
        ("signs", X, 2, {"assignment": "auto", "repair": False}),
        ("plain", X, 2, {"noise": True, "trim": True, "n_components": 6}),
    ):
        before, out = out, out.with_name(name)
        bigsmic.fit(rows, c, out=out, **options | others)
    look("all", 0, 0)
    bigsmic.fit(X[100:], 2, like=before, out=(out := out.with_name("numbered")), **options).set_names({0: "low"})
    out = out.with_name("plain")
    bigsmic.fit(X, 2, method="rim", out=out.with_name("rim"), n_threads=1)
    seen["novelty"] |= {path.parent.name for path in out.with_name("rim").glob("novelty/*/*/zarr.json")}
    return out, seen


def test_every_stage_is_in_the_table(run):
    out, seen = run
    stages = documented()
    names = ("few", "joined", "selected", "bent", "again", "hubs", "open", "no_valleys", "numbered")
    runs = (out, *(out.with_name(name) for name in names))
    kept = {path.parents[1].name for run in runs for path in run.glob("*/[0-9]*/zarr.json")}
    assert {pattern(name) for name in {*seen, *kept}} == set(stages)
    assert {pattern(name) for name in kept} == {name for name, stage in stages.items() if stage.kept}


def test_every_array_is_in_the_table(run):
    _, seen = run
    for name, stage in documented().items():
        found = {pattern(array) for at, arrays in seen.items() if pattern(at) == name for array in arrays}
        assert found == set(stage.arrays), name


def test_dtypes_and_facts(run):
    out, _ = run
    stages = documented()
    for block in out.glob("*/[0-9]*"):
        stage, entry = stages[pattern(block.parent.name)], ledger(block)
        for name, array in entry["arrays"].items():
            types = stage.arrays[pattern(name)]
            assert types == ["any"] or CODES[array["dtype"]] in types, f"{block} {name}"
        assert set(entry["info"]) == stage.info, block


def test_zarr_reads_what_the_ledger_says(run):
    out, _ = run
    group = zarr.open_group(str(out), mode="r")
    for block in out.glob("*/[0-9]*"):
        for name, meta in ledger(block)["arrays"].items():
            array = group[f"{block.parent.name}/{block.name}/{name}"]
            assert list(array.shape) == meta["shape"]
            assert array.dtype.str == meta["dtype"]
            assert sorted(path.name for path in (block / name).iterdir() if path.name != "zarr.json") == (
                [".".join(["c"] + ["0"] * array.ndim)] if array.size else []
            )


def test_the_top(run):
    out, _ = run
    group = zarr.open_group(str(out), mode="r")
    assert set(group.array_keys()) == {"labels", "posterior", "agreement", "noise"}
    assert (group["labels"].dtype, group["posterior"].shape) == (np.int32, (590, 2))
    assert np.allclose(group["posterior"][:].sum(axis=1), 1)
    assert set(group.attrs) == {"bigsmic_format", "run", "identity", "writer", "summary", "kept", "crc32"}
    assert set(group.attrs["kept"]["stages"]) == {block.parent.name for block in out.glob("*/0000000")}
    assert set(group.attrs["identity"]) == {"input", "settings"}


def canonical(*what):
    return zlib.crc32(json.dumps(what, sort_keys=True, separators=(",", ":")).encode())


def test_the_seal_of_the_page():
    example = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])
    whose = re.search(r"block\s+(\d)\s+of\s+`(\w+)`\s+in\s+the\s+run\s+`(\w+)`", PAGE)
    assert example["crc32"] == canonical(whose[3], whose[2], int(whose[1]), example["ledger"])


def test_seals(run):
    out, _ = run
    top = json.loads((out / "zarr.json").read_text())["attributes"]
    assert top["crc32"] == {name: canonical(top["run"], name, top[name]) for name in ("identity", "summary", "kept")}
    for block in out.glob("*/[0-9]*"):
        attributes = json.loads((block / "zarr.json").read_text())["attributes"]
        whose = (top["run"], block.parent.name, int(block.name))
        assert attributes["crc32"] == canonical(*whose, attributes["ledger"])


def test_checksums_of_the_top(run):
    out, _ = run
    group = zarr.open_group(str(out), mode="r")
    for block in out.glob("output/[0-9]*"):
        for name, crc32 in ledger(block)["info"].items():
            assert zlib.crc32(np.ascontiguousarray(group[name].blocks[int(block.name)])) == crc32
