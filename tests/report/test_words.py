"""Numbers in sentences."""

import pytest

import bigsmic.report.rendering
import bigsmic.report.words
import bigsmic.tables

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("module", [bigsmic.report.words, bigsmic.report.rendering, bigsmic.tables])
def test_examples_of_the_docstrings(module):
    import doctest

    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
