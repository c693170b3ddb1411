"""Arrays that come beside the rows, as files of text."""

import numpy as np
import pytest

from bigsmic.errors import InputError
from bigsmic.store.side_inputs import read_array

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n-1\n3\n", np.array([1, -1, 3])),
        ("label\n1\n2\n", np.array([1, 2])),
        ("i,j\n0,5\n7,2\n", np.array([[0, 5], [7, 2]])),
        ("0.5\n2\n1e-3\n", np.array([0.5, 2.0, 0.001])),
        ("weight\n0.5\n", np.array([0.5])),
        ("", np.zeros((0, 2), np.int64)),
    ],
)
def test_tables_of_numbers(tmp_path, text, expected):
    path = tmp_path / "table.csv"
    path.write_text(text)
    found = read_array("weights", path)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_what_is_no_number_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("i,j\n0,x\n")
    with pytest.raises(InputError, match="must_links"):
        read_array("must_links", path)


def test_rows_of_unequal_length_are_refused():
    with pytest.raises(InputError, match="must_links: got a list that is no array of numbers"):
        read_array("must_links", [[1, 2], [3]])
