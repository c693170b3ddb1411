"""Job files: what they say, and what is wrong with them, line by line."""

import re

import pytest
from locations import ROOT

from bigsmic.errors import InputError
from bigsmic.nightly import Job
from bigsmic.nightly.job import Refits
from bigsmic.nightly.toml_file import TOMLFile

pytestmark = pytest.mark.unit

WHOLE = """\
archive = "machine.zarr"
folder = "/var/lib/bigsmic/machine"
component = "samples"
memory_limit = "6GiB"
threads = 2
keep = 5
report = "reports/{night}.html"
after = "notify --run done"

[windows]
length = "10s"
step = 50
features = ["summary", "spectral"]
rate = 25
channels = ["x", "y", "z"]

[fit]
c = 5
seed = 3

[refit]
every = 30
drift = true
growth = 0.5
reservoir = 100_000
"""
LEAST = 'archive = "machine.zarr"\nfolder = "nights"\n'


def written(folder, text):
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


def test_a_whole_job(tmp_path):
    job = Job.read(written(tmp_path, WHOLE))
    assert (job.archive, job.component) == (f"{tmp_path}/machine.zarr", "samples")
    assert (job.folder, job.keep, job.threads, job.memory_limit) == ("/var/lib/bigsmic/machine", 5, 2, "6GiB")
    assert (job.report, job.after) == (f"{tmp_path}/reports/{{night}}.html", ("notify", "--run", "done"))
    assert job.windows == {
        "length": "10s",
        "step": 50,
        "features": ("summary", "spectral"),
        "rate": 25.0,
        "channels": ("x", "y", "z"),
    }
    assert (job.c, job.method, job.options) == (5, "smic", {"seed": 3})
    assert job.refits == Refits(every=30, drift=True, growth=0.5, reservoir=100_000)


def test_the_job_of_the_guide_can_be_used(tmp_path):
    page = (ROOT / "docs" / "guide" / "nights.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert Job.read(written(tmp_path, text)).refits.reservoir == 1_000_000


def test_the_least_job_never_fits_again(tmp_path):
    job = Job.read(written(tmp_path, LEAST))
    assert (job.folder, job.c, job.windows) == (f"{tmp_path}/nights", None, None)
    assert job.refits == Refits()


def test_archives_behind_urls_stay_where_they_are(tmp_path):
    assert (
        Job.read(written(tmp_path, LEAST.replace("machine.zarr", "s3://bucket/m.zarr"))).archive == "s3://bucket/m.zarr"
    )


def test_files_beside_the_rows_are_relative_to_the_job_file_too(tmp_path):
    links = "must_links = 'must.npy'\ncannot_links = '/data/cannot.npy'\nlabels = [[0, 1]]"
    job = Job.read(written(tmp_path, f"{LEAST}[fit]\nmethod = '3smic'\n{links}"))
    assert job.options == {
        "must_links": f"{tmp_path}/must.npy",
        "cannot_links": "/data/cannot.npy",
        "labels": [[0, 1]],
    }


WRONG = {
    "archive = machine": "not valid TOML: .*line 1",
    'folder = "x"': "has no archive; write archive = ",
    'archive = "x"': "has no folder",
    LEAST + 'memory = "1GiB"': r"line 3: memory: unknown key; did you mean memory_limit\?",
    LEAST + 'memory_limit = "much"': "line 3: memory_limit: got 'much'; write a size",
    LEAST + "missing_chunks = 'zero'": "line 3: missing_chunks: got 'zero'; write 'error' or 'fill'",
    LEAST + "missing_chunks = ['fill']": "line 3: missing_chunks: got .*; write 'error' or 'fill'",
    LEAST
    + "[fit]\nmissing_chunks = 'fill'": "line 4: fit.missing_chunks: .*write missing_chunks above the first table",
    LEAST + "threads = 0": "line 3: threads: got 0; write an integer, 1 or more",
    LEAST + "keep = 0": "line 3: keep: got 0; write an integer, 1 or more",
    LEAST + "keep = true": "line 3: keep: got True; write an integer",
    LEAST + 'report = "{date}.html"': r"line 3: report: .*\{night\} stands for the number",
    LEAST + "after = 3": "line 3: after: got 3; write a list of texts",
    LEAST + 'after = ""': "line 3: after: got ''; write a command",
    LEAST + "archive = 3": "not valid TOML: .*overwrite a value",
    LEAST + "fit = 3": "line 3: fit: got 3; write a table",
    LEAST + "\n[fits]\nc = 3": "line 4: fits: unknown key; did you mean fit",
    LEAST + "[windows]\nstep = 3": "line 3: windows: has no length",
    LEAST + "[windows]\nlength = 0.5": "line 4: windows.length: got 0.5; write a number of samples, or a duration",
    LEAST + "[windows]\nlength = 3\nrate = -1": "line 5: windows.rate: got -1; write a number above 0",
    LEAST + "[windows]\nlength = 3\nfeature = []": "line 5: windows.feature: .*did you mean features",
    LEAST + "[fit]\nc = 0": "line 4: fit.c: got 0; write an integer, 1 or more",
    LEAST + "[fit]\nmethod = 'simc'": "line 4: fit.method: .*use one of smic",
    LEAST + "[fit]\nc = 3\nsed = 3": "line 5: fit.sed: .*did you mean seed",
    LEAST + "[fit]\nt = 'many'": "line 4: fit.t: got 'many'",
    LEAST + "[fit]\nseed = 1\nc = 3\nsed = 3": r"line 6: fit.sed: .*unexpected option sed \(did you mean seed\?\)",
    LEAST + "[fit]\nt = 3\nk = 3": r"line 5: fit.k: .*the number of clusters is fit\.c\)",
    LEAST + "[fit]\nseed = 1\nlabels = 'x.npy'": "line 5: fit.labels: .*it is an option of method '3smic'",
    LEAST + "[fit]\nmethod = 'rim'\nt = 3": "line 5: fit.t: rim: .*it is an option of method .*'smic'",
    LEAST + "[fit]\nseed = 1\nt = 0": "line 5: fit.t: got 0",
    LEAST + "fit = { c = 3, sed = 1 }": "line 3: fit.sed: ",
    LEAST + "[fit]\nc = 3\nthreads = 2": "line 5: fit.threads: unknown key; write threads above the first table",
    LEAST + "[fit]\nn_threads = 2": "line 4: fit.n_threads: unknown key; write threads above the first table",
    LEAST + "[fit]\nn_clusters = 2": r"line 4: fit.n_clusters: unknown key; write c under \[fit\]",
    LEAST + "[windows]\nlength = 9\nmemory_limit = '1GiB'": "line 5: .*; write memory_limit above the first table",
    LEAST + "c = 3": r"line 3: c: unknown key; write c under \[fit\]",
    LEAST + "[refit]\nseed = 3": r"line 4: refit.seed: unknown key; write seed under \[fit\]",
    LEAST + "[windows]\nlength = '10s'": r"line 4: windows.length: .*give windows\.rate or windows\.times, or a number",
    LEAST + "[windows]\nlength = 'long'\ntimes = 't'": "line 4: windows.length: got 'long'; give a number of samples",
    LEAST + "[windows]\nlength = '1s'\nrate = 2.5": "line 4: windows.length: got '1s', 2.5 samples at 2.5 a second",
    LEAST + "[windows]\nlength = 99\nrate = 5\nstep = '1 parsec'": "line 6: windows.step: got '1 parsec'",
    LEAST + "[windows]\nlength = 3": "line 4: windows.length: got 3 samples, 'spectral' describes windows of",
    LEAST + "[windows]\nlength = 99\nfeatures = 'sumary'": "line 5: windows.features: got 'sumary'; use 'raw'",
    LEAST + "[windows]\nlength = 99\nchannels = ['x', 'x']": "line 5: windows.channels: got .*all different",
    LEAST + "[fit]\nkernel = 'precomputed'": "line 4: fit.kernel: got a graph",
    LEAST + "[fit]\nmethod = '3smic'\nmust_links = [[0, 9]]\n[refit]\nlast = 9": "line 5: fit.must_links: .*refit.last",
    LEAST
    + "[fit]\nmethod = 'rim'\nc = 3\nlabels = 'x.npy'\n[refit]\nreservoir = 9": "line 6: fit.labels: .*refit.reservoir",
    LEAST + "[refit]\nevery = 0": "line 4: refit.every: got 0; write an integer, 1 or more",
    LEAST + "[refit]\ndrift = 'yes'": "line 4: refit.drift: got 'yes'; write true or false",
    LEAST + "[refit]\ngrowth = 0": "line 4: refit.growth: got 0; write a number above 0",
    LEAST + "[refit]\nlast = 9\nreservoir = 9": "line 5: refit.reservoir: got it beside refit.last",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text):
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}.*{WRONG[text]}"):
        Job.read(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"job.toml: cannot be read"):
        Job.read(tmp_path / "job.toml")
    for nowhere in ("", None, {"c": 3}):
        with pytest.raises(InputError, match=r"^job: got .*; give a path or URL"):
            Job.read(nowhere)
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"job.toml: cannot be read"):
        Job.read(tmp_path / "job.toml")


def test_lines_of_keys_in_tables_and_with_dots():
    file = TOMLFile("x", "a = 1\n\n[ 'one' ]\nb = 2\n[two]\n'b' = 3\nc.d = 4\n")
    assert [file.line(*key) for key in (("a",), ("one",), ("one", "b"), ("two", "b"), ("two", "c", "d"))] == [
        1,
        3,
        4,
        6,
        7,
    ]
    assert file.line("nothing") is None


CHANGED = {
    "c = 5": "c = 6",
    "seed = 3": "seed = 4",
    "100_000": "200_000",
    "step = 50": "step = 60",
    "samples": "others",
}
UNCHANGED = {"keep = 5": "keep = 6", "6GiB": "7GiB", "threads = 2": "threads = 3", "every = 30": "every = 31"}


@pytest.mark.parametrize("old", [*CHANGED, *UNCHANGED])
def test_what_another_fit_is(tmp_path, old):
    before = Job.read(written(tmp_path, WHOLE))
    after = Job.read(written(tmp_path, WHOLE.replace(old, (CHANGED | UNCHANGED)[old])))
    assert (before.fit_of == after.fit_of) is (old in UNCHANGED)
    assert (before.rows_of == after.rows_of) is (old not in ("step = 50", "samples"))
