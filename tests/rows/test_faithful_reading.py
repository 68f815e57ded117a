"""Cells are read as they are in the file, and small files cannot become large ones."""

import codecs

import numpy as np
import pytest

from attack.bombs import BOMBS
from gemmed._core.exceptions import TableError
from gemmed.rows import compressed_files, csv_arrow, parquet_files
from gemmed.rows.rewriting import rewrite_table
from gemmed.rows.tables import open_batches, read_table

pd = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

BEYOND_FLOATS = 2**53 + 1


# -- encodings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [read_table, open_batches])
@pytest.mark.parametrize("codec", ["latin-1", "cp1252", "iso8859-15", "mac-roman", "cp850"])
def test_a_header_in_another_encoding_is_refused(codec, read, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("größe,y\n1,0\n2,1\n".encode(codec))
    with pytest.raises(TableError, match=r"line 1.*encoding"):
        read(path)
    assert read(path, encoding=codec).columns == ["größe", "y"]


@pytest.mark.parametrize("codec", ["utf-16", "utf-32"])
def test_a_byte_order_mark_names_the_encoding(codec, tmp_path):
    """The mark of UTF-32 begins with that of UTF-16."""
    path = tmp_path / "t.csv"
    path.write_bytes("größe,y\n1,ä\n2,ö\n".encode(codec))
    assert read_table(path).columns == ["größe", "y"]
    assert next(open_batches(path).batches()).frame["y"].tolist() == ["ä", "ö"]


def test_two_headers_that_differ_in_one_letter_stay_different(tmp_path):
    for name in ("größe", "grüße"):
        (tmp_path / "t.csv").write_bytes(f"{name},y\n1,0\n".encode("latin-1"))
        assert read_table(tmp_path / "t.csv", encoding="latin-1").columns[0] == name


def test_a_character_may_be_cut_where_the_head_of_a_file_ends(tmp_path):
    for shift in range(4):
        text = "x" * shift + "€" * 50_000
        (tmp_path / "t.csv").write_text(f"a,y\n{text},0\n1,1\n", encoding="utf-8")
        assert read_table(tmp_path / "t.csv").frame["a"].tolist() == [text, "1"]


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_byte_order_mark_in_the_first_cell_belongs_to_it(is_fast, tmp_path, monkeypatch):
    if not is_fast:
        monkeypatch.setattr(csv_arrow, "is_available", lambda: False)
    path = tmp_path / "t.csv"
    path.write_bytes(b"a\n" + codecs.BOM_UTF8 + b"\nx\n")
    cells = read_table(path).frame["a"].tolist()
    assert cells == ["\ufeff", "x"]


# -- Parquet -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["int64", "uint64", "int32", "uint8"])
def test_whole_numbers_with_gaps_stay_whole_numbers(kind, tmp_path):
    largest = int(np.iinfo(kind).max)
    expected = [largest, None, largest - 1, 0]
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pyarrow.table({"id": pyarrow.array(expected, kind), "y": [0, 1, 0, 1]}), path
    )
    table = read_table(path)
    assert [None if pd.isna(v) else int(v) for v in table.frame["id"]] == expected
    cells, present = table.text("id")
    assert cells[present].tolist() == [str(v) for v in expected if v is not None]
    (batch,) = open_batches(path).batches(["id"])
    assert [None if pd.isna(v) else int(v) for v in batch.frame["id"]] == expected


def test_identifiers_are_written_again_as_they_were(tmp_path):
    path = tmp_path / "t.parquet"
    ids = pyarrow.array([BEYOND_FLOATS, None, -BEYOND_FLOATS])
    parquet.write_table(pyarrow.table({"id": ids, "y": ["a", "b", "b"]}), path)
    rewrite_table(read_table(path), tmp_path / "n.parquet", changes={"y": {1: "a"}})
    again = parquet.read_table(tmp_path / "n.parquet")
    assert again["id"].to_pylist() == ids.to_pylist()
    assert again["y"].to_pylist() == ["a", "a", "b"]


@pytest.mark.parametrize("named", [True, False])
def test_the_index_of_pandas_is_a_column_with_a_note(named, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}, index=["P1", "P2"])
    frame.index.name = "patient" if named else None
    frame.to_parquet(tmp_path / "t.parquet")
    column = "patient" if named else "__index_level_0__"
    table, batches = (read(tmp_path / "t.parquet") for read in (read_table, open_batches))
    for found in (table, batches):
        assert sorted(found.columns) == sorted(["a", "y", column])
        assert [(note.about, note.column) for note in found.notes] == [("index", column)]
    assert table.frame[column].tolist() == ["P1", "P2"]
    assert table.index == (None if named else column)


def test_a_range_of_numbers_is_no_index(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert (table.columns, table.notes, table.index) == (["a", "y"], (), None)


@pytest.mark.parametrize("seed", range(5))
def test_parquet_and_csv_of_the_same_table_are_read_alike(seed, tmp_path):
    rng = np.random.default_rng(seed)
    whole = rng.integers(-(2**62), 2**62, 30).tolist()
    text = rng.choice(["größe", "=1+1", "a,b", '"'], 30).tolist()
    for row in np.flatnonzero(rng.random(30) < 0.2):
        whole[row] = text[row] = None
    columns = {"whole": whole, "text": text, "number": rng.normal(size=30).round(6).tolist()}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    pd.DataFrame(columns, dtype=object).to_csv(tmp_path / "t.csv", index=False)
    one, other = read_table(tmp_path / "t.parquet"), read_table(tmp_path / "t.csv")
    assert one.columns == other.columns
    for name in one.columns:
        (cells, present), (other_cells, other_present) = one.text(name), other.text(name)
        assert present.tolist() == other_present.tolist(), name
        assert cells[present].tolist() == other_cells[present].tolist(), name
        np.testing.assert_array_equal(one.numbers(name)[0], other.numbers(name)[0])


# -- small files that would become large -------------------------------------------------------

SMALL = {"megabytes": 8}
SIZES = {
    "rows.parquet": {"rows": 3 * 10**7},
    "text.parquet": {"rows": 2000, "length": 10**5},
    "delta.parquet": {"rows": 2000, "length": 10**5},
}


@pytest.fixture
def small_limits(monkeypatch):
    """The same limits a thousand times lower, so that the bombs can be small too."""
    monkeypatch.setattr(compressed_files, "FREE_BYTES", 64_000)
    monkeypatch.setattr(parquet_files, "FREE_COLUMN_BYTES", 256_000)


def read_all(read, path):
    """Every row; the size of a text in a dictionary shows when its rows are read."""
    found = read(path)
    return [found] if read is read_table else list(found.batches(["a", "y"]))


@pytest.mark.parametrize("read", [read_table, open_batches])
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(name, read, tmp_path, small_limits):
    path = tmp_path / name
    asked = BOMBS[name](path, **SIZES.get(name, SMALL))
    assert asked > 10 * path.stat().st_size
    with pytest.raises(TableError, match=r"too much for its size|is a z"):
        read_all(read, path)


@pytest.mark.parametrize("kind", ["csv.gz", "csv.bz2", "csv.xz"])
def test_memory_limits_what_is_read_at_once(kind, tmp_path, monkeypatch):
    path = tmp_path / f"t.{kind}"
    BOMBS[f"t.{kind}"](path, megabytes=2)
    assert len(read_table(path)) == 2 * (10**6 // 6)
    monkeypatch.setattr(compressed_files, "free_memory", lambda: 4e6)
    with pytest.raises(TableError, match=r"more than 1 MB.*decompress it first"):
        read_table(path)


def test_compressed_tables_of_usual_ratios_are_read(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=5000), "y": rng.integers(0, 2, 5000)})
    for end in ("csv.gz", "csv.bz2", "csv.xz"):
        frame.to_csv(tmp_path / f"t.{end}", index=False)
        assert len(read_table(tmp_path / f"t.{end}")) == 5000
        (batch,) = open_batches(tmp_path / f"t.{end}").batches(["a", "y"])
        assert len(batch) == 5000


# -- files that change ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("change", ["grown", "other rows", "other columns"])
def test_a_table_that_changes_between_two_readings_is_refused(suffix, change, tmp_path):
    path = tmp_path / f"t{suffix}"
    frame = pd.DataFrame({"a": range(50), "y": ["p", "q"] * 25})

    def write(frame):
        if suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path)

    write(frame)
    batches = open_batches(path)
    assert sum(len(table) for table in batches.batches()) == 50
    write(
        {
            "grown": pd.concat([frame, frame]),
            "other rows": frame[::-1],
            "other columns": frame[["y", "a"]],
        }[change]
    )
    with pytest.raises(TableError, match="has changed while it was read"):
        list(batches.batches())


def test_a_table_that_changes_during_a_reading_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,p\n" * 40_000)
    reading = open_batches(path).batches()
    next(reading)
    with path.open("a") as file:
        file.write("2,q\n")
    with pytest.raises(TableError, match="has changed while it was read"):
        list(reading)
