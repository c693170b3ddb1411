"""README.md shows what runs: Python blocks one after the other in one namespace, and lines that begin ``$ bigsmic``."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bigsmic.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def code_blocks(language):
    """Line of the README and text of every block in a language."""
    found = re.finditer(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return [(README.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    blocks = code_blocks("python")
    assert len(blocks) > 5
    for line, text in blocks:
        # lines are numbered as in the README, so that a traceback points there
        exec(compile("\n" * line + text, "README.md", "exec"), namespace)
    assert namespace["result"].labels.shape == namespace["units"].shape


def test_command_lines_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = [
        line for _, text in code_blocks("console") for line in text.splitlines() if line.startswith("$ bigsmic")
    ]
    assert len(commands) > 3
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command)[2:])
        assert result.exit_code == 0, f"{command}\n{result.output}"


@pytest.mark.parametrize("page", ["README.md", *(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    targets = [target for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in target]
    missing = [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()]
    assert missing == []
