"""Secrets stay secret, nothing stored is run, and a run directory leads nowhere else."""

import json
import logging
import os
import pickle
import re
import shutil
import traceback
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from small_fits import FAST
from typer.testing import CliRunner

import bigsmic
from bigsmic import store
from bigsmic.cli import main
from bigsmic.errors import BigsmicError, CorruptBlockError, InputError, RunError, StorageError
from bigsmic.store import retrying
from bigsmic.store.ledger import seal, write_entry
from bigsmic.store.redaction import scrubbed, shown

SECRETS = ("s3cr3t-password", "t0ken-in-the-query", "opt1on-value", "nested-opt1on")
OPTIONS = {"secret": SECRETS[2], "client": {"auth": {"token": SECRETS[3]}}, "endpoint_url": "http://127.0.0.1:9"}
SMALL = FAST | {"t": (3,), "widths": (1.5, 2)}


def rows(n=100, d=5):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def assert_no_secrets(*texts):
    for text in texts:
        for secret in SECRETS:
            assert secret not in text


# -- secrets


class Vault(MemoryFileSystem):
    """A file system that takes a user, a query and options, keeps them, and tells them all when it fails."""

    protocol = "vault"
    store: ClassVar[dict] = {}
    pseudo_dirs: ClassVar[list] = [""]
    failing = False

    def __init__(self, user=None, password=None, **options):
        super().__init__(**options)
        self.options, self.is_open = options, (user, password) == ("user", SECRETS[0])

    @staticmethod
    def _get_kwargs_from_urls(url):
        found = re.match(r"vault://([^:]*):([^@]*)@", url)
        return {"user": found[1], "password": found[2]} if found else {}

    @classmethod
    def _strip_protocol(cls, path):
        return re.sub(r"^vault://([^/]*@)?", "/", path).partition("?")[0].rstrip("/")

    def _fail(self, path):
        if not self.is_open:
            raise PermissionError("who are you?")
        if Vault.failing:
            raise OSError(
                f"user:{SECRETS[0]} asked vault://user:{SECRETS[0]}@host/{path}?sig={SECRETS[1]} with {self.options}"
            )

    def cat_file(self, path, start=None, end=None, **kwargs):
        self._fail(path)
        return super().cat_file(path, start, end, **kwargs)

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self._fail(path)
        return super().pipe_file(path, value, mode, **kwargs)


@pytest.fixture
def vault(monkeypatch, tmp_path):
    # a folder for each test: the lease of a run that an earlier test has dropped is released when it is collected
    fsspec.register_implementation("vault", Vault, clobber=True)
    for name, value in {"PATIENCE": 0.1, "FIRST_PAUSE": 0.02}.items():
        monkeypatch.setattr(retrying, name, value)
    Vault.store.clear()
    yield f"vault://user:{SECRETS[0]}@host/{tmp_path.name}"
    Vault.failing = False


@pytest.mark.parametrize("where", ["{}", "file://{}"])
def test_a_path_with_a_query_is_shown_without_it(tmp_path, where):
    secret = where.format(f"{tmp_path}/nowhere.zarr?sig={SECRETS[1]}")
    command = CliRunner()
    for arguments in (
        ["fit", secret, "-c", "3", "--out", str(tmp_path / "run")],
        ["predict", secret, str(tmp_path), "--out", str(tmp_path / "out")],
    ):
        done = command.invoke(main.app, arguments)
        assert done.exit_code in (3, 5)
        assert_no_secrets(done.output)


def test_a_fit_tells_no_secret(vault, blobs, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    data, out = f"{vault}/archive.zarr?sig={SECRETS[1]}", f"{vault}/run.zarr?sig={SECRETS[1]}"
    store.create_arrays(data, {"X": (blobs[0].shape, np.float32)}, 100, OPTIONS)["X"][...] = blobs[0]
    result = bigsmic.fit(data, 4, component="X", out=out, storage_options=OPTIONS, **SMALL)
    assert_no_secrets(repr(result), str(result), result.location, json.dumps(result.diagnostics))
    assert_no_secrets(caplog.text, *capsys.readouterr())
    again = bigsmic.fit(data, 4, component="X", out=out, storage_options=OPTIONS, **SMALL)
    np.testing.assert_array_equal(again.labels, result.labels)
    for name, file in Vault.store.items():
        assert_no_secrets(name, file.getvalue().decode(errors="replace"))


def chain(error):
    """Everything that a traceback prints, and what it does not."""
    seen = []
    while error is not None:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


@pytest.mark.parametrize("what", ["archive", "fit", "open", "write", "read", "list", "component"])
def test_errors_tell_no_secret(vault, blobs, caplog, what):
    data, out = f"{vault}/archive.zarr?sig={SECRETS[1]}", f"{vault}/run.zarr?sig={SECRETS[1]}"
    store.create_arrays(data, {"X": (blobs[0].shape, np.float32)}, 100, OPTIONS)["X"][...] = blobs[0]
    source = store.open_source(data, "X", OPTIONS)
    run = store.Run(out, OPTIONS)
    run.write("stage", 0, {"rows": rows()})
    Vault.failing = what != "component"
    attempts = {
        "archive": lambda: store.open_source(data, "X", OPTIONS),
        "fit": lambda: bigsmic.fit(data, 4, component="X", out=out, storage_options=OPTIONS),
        "open": lambda: bigsmic.Result.open(out, storage_options=OPTIONS),
        "write": lambda: run.write("stage", 0, {"rows": rows()}),
        "read": lambda: run.read("stage", 0, "rows"),
        "list": lambda: source.read(0, 10),
        "component": lambda: store.open_source(data, None, OPTIONS),
    }
    with pytest.raises(BigsmicError) as caught:
        attempts[what]()
    assert_no_secrets("".join(traceback.format_exception(caught.value)), caplog.text)
    if what != "component":
        assert "vault://***@host" in str(caught.value)
        assert all(isinstance(error, BigsmicError) for error in chain(caught.value)[:1])
    Vault.failing = False
    run.close()


def test_what_is_sent_to_workers_does_not_show_them(vault):
    run = store.Run(f"{vault}/run.zarr?sig={SECRETS[1]}", OPTIONS)
    store.create_arrays(f"{vault}/a.zarr", {"X": ((3, 2), np.float32)}, 3, OPTIONS)
    source = store.open_source(f"{vault}/a.zarr", "X", OPTIONS)
    assert_no_secrets(
        repr(run), str(run), repr(source), source.name, run.location, repr(source.array), repr([run._group])
    )
    there = pickle.loads(pickle.dumps(run))
    there.write("stage", 0, {"rows": rows()})
    np.testing.assert_array_equal(run.read("stage", 0, "rows"), rows())
    run.close()


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("s3://bucket/run.zarr", "s3://bucket/run.zarr"),
        ("/home/me@host/run?.zarr", "/home/me@host/run?.zarr"),
        ("ftp://me:word@host:21/run.zarr", "ftp://***@host:21/run.zarr"),
        ("https://host/a.zarr?X-Amz-Signature=abc&b=c", "https://host/a.zarr?***"),
        ("simplecache::https://me:word@host/a.zarr?s=abc", "simplecache::https://***@host/a.zarr?***"),
    ],
)
def test_locations_as_messages_have_them(location, told):
    assert shown(location) == told


def test_texts_are_scrubbed_of_values_wherever_they_stand():
    text = "ask http://127.0.0.1:9/b?sig=xyz with 'opt1on-value', b'nested-opt1on', hunter2 as user of ftp://u:p@h/"
    clean = scrubbed(text, "ftp://user:hunter2@host/", OPTIONS)
    assert clean == "ask http://127.0.0.1:9/b?*** with '***', b'***', *** as *** of ftp://***@h/"


# -- what is stored is never run


class Harmful:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize(
    "how",
    [
        {"dtype": "<f4", "compressor": {"id": "pickle"}, "filters": None},
        {"dtype": "<f4", "compressor": None, "filters": [{"id": "pickle"}]},
        {"dtype": "|O", "compressor": None, "filters": [{"id": "pickle"}]},
        {"dtype": "|O", "compressor": {"id": "pickle"}, "filters": [{"id": "vlen-utf8"}]},
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_an_archive_of_pickles_is_not_read(tmp_path, how):
    meta = {"zarr_format": 2, "shape": [4, 2], "chunks": [4, 2], "fill_value": 0, "order": "C"} | how
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / ".zarray").write_text(json.dumps(meta))
    (tmp_path / "a.zarr" / "0.0").write_bytes(pickle.dumps(Harmful(str(tmp_path / "harm"))))
    with pytest.raises(InputError):
        store.open_source(tmp_path / "a.zarr").read(0, 4)
    assert not (tmp_path / "harm").exists()


def test_a_ledger_does_not_bring_objects(tmp_path):
    run = store.Run(tmp_path / "run.zarr")
    run.write("stage", 0, {"rows": rows()})
    entry = run.entry("stage", 0)
    entry["arrays"]["rows"]["dtype"] = "|O"
    ledger = tmp_path / "run.zarr" / "stage" / "0000000" / "zarr.json"
    ledger.write_bytes(write_entry((run.id, "stage", 0), entry))
    with pytest.raises(CorruptBlockError, match="is not in the ledger"):
        store.Run(run.location, writable=False).read("stage", 0, "rows")
    run.close()


def test_a_run_names_methods_and_not_modules(tmp_path, blobs):
    out = tmp_path / "run.zarr"
    bigsmic.fit(blobs[0], 4, out=out, **SMALL)
    root = json.loads((out / "zarr.json").read_text())
    attributes = root["attributes"]
    attributes["identity"]["settings"]["method"] = "os"
    attributes["crc32"]["identity"] = seal(attributes["run"], "identity", attributes["identity"])
    (out / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(RunError, match="method: got 'os'"):
        bigsmic.Result.open(out)


# -- names


@pytest.fixture
def run(tmp_path):
    opened = store.Run(tmp_path / "run.zarr")
    opened.bind({"rows": 3})
    yield opened
    opened.close()


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    (folder / "deeper").mkdir(parents=True)
    (folder / "file").write_text("precious")
    yield folder
    assert sorted(path.name for path in folder.rglob("*")) == ["deeper", "file"]
    assert (folder / "file").read_text() == "precious"


NAMES = ["..", "../outside", "/etc", "a/b", "", ".", ".hidden", "a\\b", "a\x00b", "a\n", "-"]


@pytest.mark.parametrize("name", NAMES)
def test_names_lead_nowhere_else(run, outside, name):
    attempts = [
        lambda: run.write(name, 0, {"rows": rows()}),
        lambda: run.write("stage", 0, {name: rows()}),
        lambda: run.done(name, 0),
        lambda: run.read(name, 0, "rows"),
        lambda: run.forget(name, 0),
        lambda: run.drop(name, []),
        lambda: run.create(name, (3,), 3, np.int32),
        lambda: run.array("output", name, (3,), np.int32),
        lambda: run.write_rows(name, 0, np.zeros(3)),
        lambda: run.check_rows(name, 0, 3, 0),
    ]
    for attempt in attempts:
        with pytest.raises(RunError, match="is not a valid name"):
            attempt()


def test_a_ledger_names_nothing_outside(run, outside):
    run.write("stage", 0, {"rows": rows()})
    entry = run.entry("stage", 0)
    entry["arrays"]["../../../outside/file"] = entry["arrays"]["rows"]
    ledger = Path(run.location) / "stage" / "0000000" / "zarr.json"
    ledger.write_bytes(write_entry((run.id, "stage", 0), entry))
    with pytest.raises(CorruptBlockError, match="is not in the ledger"):
        run.entry("stage", 0)
    run.check("stage", 0)
    assert not run.done("stage", 0)


@pytest.mark.parametrize("where", ["stage", "stage/0000000", "stage/0000000/rows"])
def test_symbolic_links_are_not_followed(run, outside, where):
    run.write("stage", 0, {"rows": rows()})
    place = Path(run.location) / where
    shutil.rmtree(place)
    place.symlink_to(outside)
    attempts = [
        lambda: run.write("stage", 0, {"rows": rows()}),
        lambda: store.Run(run.location, writable=False).read("stage", 0, "rows"),
        lambda: run.drop("stage", [0]),
    ]
    for attempt in attempts[: 2 if where.endswith("rows") else 3]:
        with pytest.raises((RunError, StorageError), match=r"symbolic link|not in the ledger"):
            attempt()
    run.sweep()


def test_a_chunk_that_is_a_link_is_not_read_and_is_replaced(run, outside):
    run.write("stage", 0, {"rows": rows()})
    chunk = Path(run.location) / "stage" / "0000000" / "rows" / "c.0.0"
    chunk.unlink()
    chunk.symlink_to(outside / "file")
    with pytest.raises(
        RunError, match=r"c\.0\.0 is a symbolic link, which could lead anywhere; a run has no links: remove it"
    ):
        run.read("stage", 0, "rows")
    run.write("stage", 0, {"rows": rows()})
    np.testing.assert_array_equal(run.read("stage", 0, "rows"), rows())


@pytest.mark.parametrize("where", ["labels", "labels/c"])
def test_arrays_at_the_top_are_not_links(run, outside, where):
    run.create("labels", (3,), 3, np.int32)
    place = Path(run.location) / where
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(outside)
    attempts = [
        lambda: run.create("labels", (3,), 3, np.int32),
        lambda: run.array("output", "labels", (3,), np.int32),
    ]
    for attempt in attempts:
        with pytest.raises(RunError, match="is a symbolic link"):
            attempt()


def test_scratch_is_no_link(run, outside):
    (Path(run.location) / ".scratch").symlink_to(outside)
    with pytest.raises(RunError, match=r"\.scratch is a symbolic link"):
        run.sweep()


def test_sweeping_does_not_follow_links(run, outside):
    (outside / "c.0.12-34.partial").touch()
    (Path(run.location) / "stage").symlink_to(outside)
    run.sweep()
    assert (outside / "c.0.12-34.partial").exists()
    assert run.blocks() == []
    (outside / "c.0.12-34.partial").unlink()


def test_the_run_itself_may_be_behind_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    run = store.Run(tmp_path / "link" / "run.zarr")
    run.write("stage", 0, {"rows": rows()})
    np.testing.assert_array_equal(run.read("stage", 0, "rows"), rows())
    run.close()


def test_the_command_line_tells_no_secret(vault, blobs, caplog):
    data, out = f"{vault}/archive.zarr?sig={SECRETS[1]}", f"{vault}/run.zarr?sig={SECRETS[1]}"
    store.create_arrays(data, {"X": (blobs[0].shape, np.float32)}, 100, OPTIONS)["X"][...] = blobs[0]
    given = ["--storage-option", f"secret={SECRETS[2]}", "--t", "3", "--n-centers", "40", "--threads", "1"]
    command = ["fit", data, "--component", "X", "-c", "4", "--out", out, *given]
    for more in (["--json"], [], ["--debug"]):
        Vault.failing = "--debug" in more
        done = CliRunner().invoke(main.app, [*command, *more])
        assert done.exit_code == (6 if Vault.failing else 0), done.output
        assert_no_secrets(done.output, caplog.text)
