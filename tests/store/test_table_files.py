"""Tables of text and Parquet by their paths: the same rows as in memory, and refusals that say what to do."""

import pickle
import subprocess
import sys

import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from locations import environment
from small_fits import FAST
from suggested import run_suggested

import bigsmic
from bigsmic.errors import InputError, StorageError
from bigsmic.store.sources import table_files
from bigsmic.store.sources.opening import open_source

NAMES = ["load", "heat", "noise"]
ROWS = np.random.default_rng(0).normal(size=(3000, 3))


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Paths of the same table in files of each kind, in several partitions."""
    monkeypatch.setattr(table_files, "TEXT_BYTES", 50_000)
    frame = pd.DataFrame(ROWS, columns=NAMES)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_csv(tmp_path / "rows.tsv", index=False, sep="\t")
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    (tmp_path / "parts.parquet").mkdir()
    for i in range(3):
        frame[i * 1000 : (i + 1) * 1000].to_parquet(tmp_path / "parts.parquet" / f"part.{i}.parquet")
    return tmp_path


def written(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet", "parts.parquet"])
def test_rows_are_those_of_the_table(tables, name):
    source = open_source(tables / name)
    assert (source.shape, list(source.column_names)) == (ROWS.shape, NAMES)
    assert np.array_equal(source.read(900, 2100), ROWS[900:2100])
    assert np.array_equal(open_source(tables / name, "noise, load").read(5, 9), ROWS[5:9, [2, 0]])
    assert source.places == [str(tables / name)]


def test_a_file_of_parquet_is_read_some_columns_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "PART_BYTES", 8 * 3000)  # a column
    table = pd.DataFrame(ROWS, columns=NAMES).assign(flag=ROWS[:, 0] > 0, count=np.arange(3000), low=np.float32(0.1))
    table.to_parquet(tmp_path / "rows.parquet")
    source = open_source(tmp_path / "rows.parquet")
    assert len(source._parts) == 6
    assert (source.shape, source.dtype) == ((3000, 6), np.float64)
    assert np.array_equal(source.read(900, 2100), table.to_numpy(np.float64)[900:2100])
    chosen = open_source(tmp_path / "rows.parquet", "low,count")
    assert np.array_equal(chosen.read(5, 9), table[["low", "count"]].to_numpy(np.float64)[5:9])
    assert np.array_equal(pickle.loads(pickle.dumps(source)).read(5, 9), source.read(5, 9))


GROWTH = """
import sys, threading
import dask.dataframe, pyarrow.parquet
import bigsmic
from bigsmic.engines.memory import peak_memory, share_arena
from bigsmic.store.sources.opening import open_source

share_arena()
before = peak_memory()
source = open_source(sys.argv[1])
read = lambda: [source.read(lo, lo + 20_000) for lo in range(0, 100_000, 20_000)] and None
threads = [threading.Thread(target=read) for _ in range(2)]
[t.start() for t in threads], [t.join() for t in threads]
rows = 2 * 5 * 20_000 * 256
print(peak_memory() - before, source.band_bytes + rows)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="high-water marks are Linux's to tell")
def test_a_file_of_parquet_takes_what_is_planned_for_it(tmp_path):
    """The file is one partition, of which whole copies would be made, and by each thread."""
    rows = np.random.default_rng(0).standard_normal((200_000, 64), dtype=np.float32)
    pd.DataFrame(rows, columns=[f"x{j}" for j in range(64)]).to_parquet(tmp_path / "a.parquet")
    line = [sys.executable, "-c", GROWTH, str(tmp_path / "a.parquet")]
    done = subprocess.run(line, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    found, planned = map(int, done.stdout.split())
    assert found <= planned < 220 << 20


def test_a_fit_of_a_table_resumes_and_predicts(tables):
    found = bigsmic.fit(tables / "rows.csv", 3, out=tables / "run", **FAST)
    assert np.array_equal(found.labels, bigsmic.fit(pd.DataFrame(ROWS, columns=NAMES), 3, **FAST).labels)
    assert np.array_equal(bigsmic.fit(tables / "rows.csv", 3, out=tables / "run", **FAST).labels, found.labels)
    with pytest.raises(InputError, match="heat"):
        found.predict(tables / "rows.csv", component="load,noise,heat")


def test_a_last_line_without_an_end_is_a_row_unless_the_file_grows_while_it_is_read(tmp_path):
    table = written(tmp_path / "a.csv", "a,b\n1,2\n3,12.3")
    source = open_source(table)
    assert source.complete_rows == 1
    assert np.array_equal(source.read(0, 2), [[1, 2], [3, 12.3]])
    written(table, "a,b\n1,2\n3,12.345\n")
    assert np.array_equal(source.read(0, 1), [[1, 2]])
    with pytest.raises(InputError, match=r"may have been half written; fit the complete ones, rows=slice\(1\), or try"):
        source.read(0, 2)
    again = open_source(table)
    assert (again.complete_rows, again.read(1, 2)[0, 1]) == (2, 12.345)


def test_an_update_leaves_a_last_line_without_an_end_to_the_next_one(tmp_path):
    pd.DataFrame(ROWS, columns=NAMES).to_csv(table := tmp_path / "rows.csv", index=False)
    found = bigsmic.fit(table, 3, out=tmp_path / "run", **FAST)
    with open(table, "a") as file:
        file.write("1,2,3\n4,5,12.3")
    assert found.update(table).rows == 1
    with open(table, "a") as file:
        file.write("45\n")
    assert found.update(table).rows == 1
    assert len(found.archive_labels()) == 3002


def test_a_number_that_is_half_written_is_said_to_be(tmp_path):
    with pytest.raises(InputError, match=r"read as a table .*; its last line has no end: if it is being"):
        open_source(written(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 2000 + "1,-")).read(0, 1)


def test_integers_may_have_fractions_further_down(tmp_path):
    table = written(tmp_path / "a.csv", "a,b\n" + "1,2\n" * 2000 + "1.5,\n")
    assert np.array_equal(open_source(table).read(1999, 2001), [[1, 2], [1.5, np.nan]], equal_nan=True)


@pytest.mark.parametrize("row", [30, 1500])  # dask infers dtypes from ten rows, and a thousand are looked at
@pytest.mark.parametrize(("entry", "message"), [("", "NaN"), ("unknown", "not numbers|cannot be cast to bool")])
def test_truth_values_that_are_missing_or_words_further_down_are_not_taken_for_true(tmp_path, row, entry, message):
    entries = [entry if i == row else str(i % 3 > 0) for i in range(2000)]
    table = written(tmp_path / "a.csv", "load,on\n" + "".join(f"{i},{on}\n" for i, on in enumerate(entries)))
    with pytest.raises(InputError, match=message):
        bigsmic.fit(table, 2, **FAST)


def test_truth_values_are_numbers(tmp_path):
    entries = ["TRUE" if i % 3 else "FALSE" for i in range(2000)]
    table = written(tmp_path / "a.csv", "load,on\n" + "".join(f"{i},{on}\n" for i, on in enumerate(entries)))
    assert np.array_equal(open_source(table).read(0, 2000)[:, 1], np.arange(2000) % 3 > 0)


@pytest.mark.parametrize("names", ["0,1", "400.5,401,402.5,403", "a,1"])
def test_names_may_be_numbers_that_ascend(tmp_path, names):
    row = ",".join(["7"] * len(names.split(",")))
    source = open_source(written(tmp_path / "a.csv", f"{names}\n{row}\n{row}\n"))
    assert (source.shape[0], list(source.column_names)) == (2, names.split(","))


def test_a_table_whose_names_are_numbers_is_read_by_them(tmp_path):
    table = written(tmp_path / "a.csv", "0.5,0.1\n3,2\n")
    assert np.array_equal(open_source(table, "0.5,0.1").read(0, 1), [[3, 2]])


@pytest.mark.parametrize("names", [range(3), pd.MultiIndex.from_product([["load"], [1, 2, 3]])])
def test_names_that_are_no_texts_are_refused_with_a_command_that_mends_them(tmp_path, names):
    pd.DataFrame(ROWS, columns=names).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="which is no text; write the table again") as caught:
        open_source(tmp_path / "rows.parquet")
    run_suggested(str(caught.value))
    source = open_source(tmp_path / "rows-named.parquet")
    assert list(source.column_names) == [str(name) for name in names]
    assert np.array_equal(source.read(0, 3000), ROWS)


def test_names_with_spaces_around_them_are_found_without(tmp_path):
    table = written(tmp_path / "a.csv", "load, heat, load,kind \n1, 2, 3,up\n4, 5, 6,down\n")
    assert np.array_equal(open_source(table, "heat,load").read(0, 2), [[2, 1], [5, 4]])
    assert np.array_equal(open_source(table, " load, heat").read(0, 2), [[3, 2], [6, 5]])
    with pytest.raises(InputError, match=r"leave them out with component='load, heat, load'") as caught:
        open_source(table)
    offered = str(caught.value).partition("component='")[2].partition("'")[0]
    assert np.array_equal(open_source(table, offered).read(0, 2), [[1, 2, 3], [4, 5, 6]])


def test_a_table_of_words_alone_is_not_told_to_leave_them_out(tmp_path):
    with pytest.raises(InputError, match="are not numbers; code them as numbers"):
        open_source(written(tmp_path / "a.csv", "kind,place\nup,here\ndown,there\n"))


def test_a_folder_of_text_is_refused_with_a_call_that_reads_it(tmp_path, tables):
    folder = tmp_path / "parts.csv"
    folder.mkdir()
    (tables / "rows.csv").rename(folder / "part-0.csv")
    with pytest.raises(InputError, match=r"is a folder.*read_csv\('.*parts\.csv/\*\.csv'\)"):
        open_source(folder)


def test_text_that_cannot_be_opened_is_a_storage_error(tmp_path, tables, monkeypatch):
    def refused(path, *args, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(table_files, "open", refused, raising=False)
    with pytest.raises(StorageError, match=r"rows\.csv' could not be read \(\[Errno 13\] Permission denied"):
        open_source(tables / "rows.csv")


@pytest.mark.parametrize("name", ["gone.csv", "gone.zarr"])
def test_a_file_that_does_not_exist_is_said_to(tmp_path, name):
    with pytest.raises(InputError, match=f"{name}' does not exist"):
        open_source(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "component", "message"),
    [
        ("0.5,0.1\n0.3,0.2\n", None, r"the first line of .* has numbers \(0\.5, 0\.1, \.\.\.\) .*write names above"),
        ("0.1,0.5,0.7\n0.3,0.2,0.9\n", None, "the first line of .* has numbers"),  # which ascend by chance
        (",0,1\n0,5,1\n1,2,7\n", None, r"column 0 of .* has no name, and can be an index"),
        (",a\n0,1\n1,2\n", None, r"column 0 of .* has no name, and can be an index.*component="),
        (
            "a,kind\n1,up\n2,down\n",
            None,
            r"columns \['kind'\] of .* are not numbers; leave them out with component='a'",
        ),
        ("a,kind\n1,up\n2,down\n", "a,b", r"no column 'b', given as component=; its columns are \['a', 'kind'\]"),
        ("a,b\n1,2,3\n4,5,6\n", None, r"more entries than its first line has names \(2\)"),
        ('\n"a\nb",c\n\n1.5,2,3\n4,5,6\n', None, r"more entries than its first line has names \(2\)"),
        ("a,b\n1,2\n", 1, "component: got 1; give a name as text"),
        ("a,b\n1,2\n", ["a"], r"component: got \['a'\]; give a name as text, or of a table, names with commas"),
        ("a,b\n", None, "has no rows below its header"),
        ("", None, "EmptyDataError"),
        ("a,b\n" + "1,2\n" * 2000 + "1,up\n", None, r"could not convert string to float: 'up'\); mend it"),
    ],
)
def test_other_tables_are_refused(tmp_path, text, component, message):
    table = written(tmp_path / "a.csv", text)
    with pytest.raises(InputError, match=message):
        open_source(table, component).read(0, 2)


@pytest.mark.parametrize(
    ("written_as", "is_of"),
    [
        ({"sep": ";"}, "';', not ','"),
        ({"sep": ";", "decimal": ","}, "';', not ','"),
        ({"sep": "\t"}, r"'\\t', not ','"),
    ],
    ids=["semicolons", "decimal commas", "tabs"],
)
def test_other_separators_are_refused_with_a_command_that_mends_the_table(tmp_path, written_as, is_of):
    pd.DataFrame(ROWS, columns=NAMES).to_csv(tmp_path / "rows.csv", index=False, **written_as)
    with pytest.raises(InputError, match=f"columns of .* are separated by {is_of}; copy it") as refused:
        open_source(tmp_path / "rows.csv", "load")
    run_suggested(refused.value)
    source = open_source(tmp_path / "rows-commas.csv")
    assert list(source.column_names) == NAMES
    np.testing.assert_allclose(source.read(0, 3000), ROWS)


@pytest.mark.parametrize(
    "index", [pd.RangeIndex(3000), pd.RangeIndex(0, 6000, 2), pd.Index(np.arange(3000)[::-1])], ids=str
)
def test_an_index_of_parquet_is_no_column(tmp_path, index):
    """Pandas writes an index of even numbers as its bounds; Dask looks for a column of its name."""
    frame = pd.DataFrame(ROWS, columns=NAMES, index=index.rename("time"))
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    source = open_source(tmp_path / "rows.parquet")
    assert list(source.column_names) == NAMES
    assert np.array_equal(source.read(900, 2100), ROWS[900:2100])
    assert np.array_equal(open_source(tmp_path / "rows.parquet", "noise,load").read(5, 9), ROWS[5:9, [2, 0]])


def test_a_file_that_is_no_parquet_or_goes_away(tmp_path, tables):
    with pytest.raises(InputError, match="could not be read as a table"):
        open_source(written(tmp_path / "a.parquet", "no table"))
    source = open_source(tables / "rows.csv")
    (tables / "rows.csv").unlink()
    with pytest.raises(StorageError, match=r"rows\.csv.*check the file"):
        source.read(0, 10)


@pytest.mark.parametrize(
    ("version", "is_told"), [("2.2.3", True), ("3.0.4", True), ("3.1.0", False), ("10.0.0", False)]
)
def test_pandas_that_reads_the_exact_bits_by_itself_is_not_told_to(tables, monkeypatch, version, is_told):
    """Pandas 3.1 deprecates the option."""
    given = []
    read = dask.dataframe.read_csv
    monkeypatch.setattr(pd, "__version__", version)
    monkeypatch.setattr(dask.dataframe, "read_csv", lambda *args, **options: given.append(options) or read(*args))
    assert open_source(tables / "rows.csv").shape == ROWS.shape
    assert [options.get("float_precision") for options in given] == ["round_trip" if is_told else None]


def test_entries_in_excess_are_refused_where_they_are_an_even_index(tmp_path, monkeypatch):
    """Pandas 3.1 makes an index of evenly spaced integers a RangeIndex, as that of a table without one is."""
    read = pd.read_csv

    def even(*args, **options):
        found = read(*args, **options)
        return found.set_axis(pd.RangeIndex(len(found)))

    monkeypatch.setattr(pd, "read_csv", even)
    table = written(tmp_path / "a.csv", "a,b\n0,2,3\n1,5,6\n2,8,9\n")
    with pytest.raises(InputError, match=r"more entries than its first line has names \(2\)"):
        open_source(table)
