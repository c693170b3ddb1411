import pytest

from bigsmic import tables

pytestmark = pytest.mark.unit


def records(n_columns, n_rows=3, **same):
    return [same | {f"column number {j}": 10.5 * j + i for j in range(n_columns)} for i in range(n_rows)]


def text(rows):
    return tables.rendered(tables.tables(rows))


def test_what_fits_is_one_table():
    assert text([{"name": "a", "size": 1200}, {"name": "bc", "size": 7}]).splitlines() == [
        "name   size",
        "a     1,200",
        "bc        7",
    ]


def test_headers_are_broken_first():
    lines = text(records(7)).splitlines()
    assert lines[0].split() == ["column"] * 7
    assert len(lines) == 3 + 3


@pytest.mark.parametrize("n_columns", [12, 30])
def test_what_is_the_same_in_all_rows_is_said_once_and_the_rest_shared_out(n_columns):
    lines = text(records(n_columns, kind="of its own")).splitlines()
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if "of its own" in line] == ["all       kind of its own"]
    numbers = [line.split()[0] for line in lines if line.split() and line.split()[0] in "123"]
    assert numbers == ["1", "2", "3"] * (len(numbers) // 3)
    cells = [cell for line in lines for cell in line.split()]
    assert all(f"{10.5 * j + i:.4g}" in cells for j in range(n_columns) for i in range(3))


def test_entries_that_some_rows_lack_are_empty():
    assert text([{"a": 1, "b": 2.5}, {"a": 3}]).splitlines() == ["a    b", "1  2.5", "3"]
    assert text([{"a": 3}, {"a": 1, "b": 2.5}]).splitlines() == ["a    b", "3", "1  2.5"]


def test_long_lines_go_on_below_what_follows_their_label():
    line = "  scale      " + "word " * 30
    first, *more = tables.folded(line).splitlines()
    assert len(first) <= 80
    assert all(part.startswith(" " * 13 + "word") for part in more)
    path = "  run        /" + "folder/" * 20
    assert tables.folded(path) == path


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0 B"), (1023, "1023 B"), (1536, "2 KiB"), (5 << 20, "5 MiB"), (3 << 29, "1.5 GiB")]
)
def test_bytes_in_words(size, words):
    assert tables.bytes_text(size) == words


def test_long_names_are_folded_and_whole():
    name = "walking" * 13
    assert name in text([{"number": 3, "name": name}]).replace("\n", "").replace(" ", "")
