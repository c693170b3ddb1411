"""Modules stay short enough to be read at one sitting, or say why they are not."""

import ast
from pathlib import Path

import pytest

import bigsmic

pytestmark = pytest.mark.unit

MOST_LINES = 500
REASON = "one module because"
PACKAGE = Path(bigsmic.__file__).parent
MODULES = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}


def excess(source):
    """Lines of a module above the limit; 0 where its first paragraph gives the reason."""
    first_paragraph = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
    return 0 if REASON in first_paragraph else max(0, len(source.splitlines()) - MOST_LINES)


def test_no_module_is_long_without_a_reason_in_its_first_paragraph():
    assert {name: lines for name, source in MODULES.items() if (lines := excess(source))} == {}
    assert len(MODULES) > 100


def test_long_modules_are_found_and_reasons_count_in_the_first_paragraph_alone():
    long = "x = 1\n" * (MOST_LINES + 3)
    assert excess(long) == 3
    assert excess(f'"""Tables of constants.\n\n{REASON} the second paragraph says so."""\n{long}') == 6
    assert excess(f'"""Tables of constants: {REASON} they are generated."""\n{long}') == 0
    assert excess("x = 1\n") == 0
