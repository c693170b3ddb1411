"""Numbers of a column are shown alike."""

import math

import pytest

from bigsmic.report import Table

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("column", "decimals"),
    [
        ([0.992, 0.99, 1.0, None], 3),
        ([5.979, 13.56, math.inf], 2),
        ([0.0024, 0.1706, 0.0], 3),
        ([0.00041, 0.0032], 5),
        ([12_345.6, 3.2], 0),
        ([1234.5, 700.0], 0),
        ([3e-9, 2e-9], None),  # digits after many zeros are not read
        ([1.5e15, 2e14], None),
        ([1e-6, 2.5], None),  # of a wide range: digits say more than decimals
        ([1, 2, None], None),
        ([0.0, math.nan], None),
        (["a", 0.5], None),
    ],
)
def test_decimals_of_a_column(column, decimals):
    table = Table(("Value",), [(value,) for value in column])
    assert table.decimals == [decimals]
