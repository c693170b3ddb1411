"""README.md and the pages under docs show what runs, and lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from locations import ROOT
from typer.testing import CliRunner

import bigsmic
import bigsmic.errors
from bigsmic.cli.main import app

PAGES = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
TUTORIAL = "docs/tutorial.md"
GUIDE = [page for page in PAGES if page.startswith("docs/guide/")]


def code_blocks(page, *languages):
    """Every block in one of some languages: the line of the page that it begins after, and its text."""
    text = (ROOT / page).read_text()
    found = re.finditer(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def script(page, folder):
    """Write the Python of a page to a file, with its line numbers: a traceback then points to the page."""
    lines = []
    for line, text in code_blocks(page, "python"):
        lines += [""] * (line - len(lines)) + text.splitlines()
    path = folder / Path(page).with_suffix(".py").name
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*command, folder):
    """Run a command of this environment, and return its standard error."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHONPATH": str(Path(bigsmic.__file__).parents[1])}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """A folder in which the first snippet of the tutorial has run: the user guide uses its archive."""
    folder = tmp_path_factory.mktemp("guide")
    (folder / "archive.py").write_text(code_blocks(TUTORIAL, "python")[0][1])
    run(sys.executable, "archive.py", folder=folder)
    return folder


def test_python_of_the_readme_runs_twice(tmp_path):
    path = script("README.md", tmp_path)
    assert run(sys.executable, path, folder=tmp_path) == ""
    written = {file: file.stat().st_mtime_ns for file in tmp_path.glob("run.zarr/labels/c/*")}
    assert len(written) > 0
    assert run(sys.executable, path, folder=tmp_path) == ""
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("run.zarr/labels/c/*")} == written


@pytest.mark.end_to_end
def test_shell_of_the_readme_runs_twice(tmp_path):
    blocks = [text for _, text in code_blocks("README.md", "sh")]
    install = [text for text in blocks if "pip install" in text]
    assert [text.strip() for text in install] == ["pip install . && bigsmic demo", 'pip install ".[test]" && pytest']
    (use,) = [text for text in blocks if text not in install]
    for _ in range(2):
        run("bash", "-euo", "pipefail", "-c", use, folder=tmp_path)


@pytest.mark.end_to_end
def test_tutorial_runs(tmp_path):
    assert run(sys.executable, script(TUTORIAL, tmp_path), folder=tmp_path) == ""


@pytest.mark.parametrize("page", [TUTORIAL, "docs/guide/command-line.md"])
def test_command_lines_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for _, text in code_blocks(page, "console") for line in text.splitlines()]
    commands = [line for line in lines if line.startswith("$ bigsmic")]
    assert len(commands) > 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[2:])
        assert result.exit_code == 0, f"{command}\n{result.output}"


@pytest.mark.end_to_end
@pytest.mark.parametrize("page", [page for page in GUIDE if code_blocks(page, "python")])
def test_guide_runs_without_warnings(page, archive):
    assert "Warning: " not in run(sys.executable, script(page, archive), folder=archive)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]
    assert missing == []


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def test_reference_lists_every_public_name():
    listed = [line.strip() for line in (ROOT / "docs" / "api.md").read_text().splitlines()]
    errors = vars(bigsmic.errors)  # listed by its docstring
    assert [name for name in bigsmic.__all__ if name not in listed and name not in errors] == []
