"""Excel workbooks: the same cells, notes and errors as CSV; written whole."""

import datetime
import io
import json
import zipfile

import numpy as np
import pytest

from gemmed._core.exceptions import OutputError, TableError
from gemmed.rows import excel_files
from gemmed.rows.rewriting import rewrite_table
from gemmed.rows.tables import read_table, write_table
from patients import FIT, FLIPPED, call, patients, refusal

pd = pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")


@pytest.fixture
def book(tmp_path):
    """Writes rows of cells to a workbook; the path."""

    def write(*sheets, name="t.xlsx"):
        made = openpyxl.Workbook()
        made.remove(made.active)
        for i, rows in enumerate(sheets):
            sheet = made.create_sheet(f"part {i + 1}")
            for row in rows:
                sheet.append(row)
        made.save(tmp_path / name)
        return tmp_path / name

    return write


def test_cells_are_read_as_from_csv(book, tmp_path):
    day = datetime.datetime(2024, 3, 5)
    rows = [
        ["name", "x; y", "n", "when", "ok", None],
        [None] * 6,
        ["007", 1.5, 12, day, True, None],
        ['a "b", c', None, 3e20, day.replace(hour=7), False, None],
    ]
    table = read_table(book(rows))
    assert table.columns == ["name", "x; y", "n", "when", "ok"]
    assert table.text("name")[0].tolist() == ["007", 'a "b", c']
    assert table.text("n")[0].tolist() == ["12", "3e+20"]
    assert table.text("when")[0].tolist() == ["2024-03-05", "2024-03-05 07:00:00"]
    assert table.text("ok")[0].tolist() == ["TRUE", "FALSE"]
    assert table.text("x; y")[1].tolist() == [True, False]


def test_the_first_sheet_is_read_unless_another_is_named(book):
    path = book([["a", "b"], [1, 2]], [["c", "d"], [3, 4]])
    table = read_table(path)
    assert table.columns == ["a", "b"]
    assert any("--sheet" in note.text and "'part 2'" in note.text for note in table.notes)
    assert read_table(path, sheet="part 2").columns == ["c", "d"]
    with pytest.raises(TableError, match="no sheet 'x': it has 'part 1', 'part 2'"):
        read_table(path, sheet="x")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "is empty"),
        ([["a", "b"]], "header but no rows"),
        ([["a", "a"], [1, 2]], "more than one column 'a'"),
        ([["a", None, "b"], [1, 2, 3]], "column 2 of .* has no name"),
    ],
)
def test_errors_are_those_of_csv(book, rows, message):
    with pytest.raises(TableError, match=message):
        read_table(book(rows))


def test_damaged_and_oversized_workbooks_are_refused(book, tmp_path, monkeypatch):
    path = book([["a", "b"], [1, 2]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = b"<nonsense"
    broken = tmp_path / "broken.xlsx"
    with zipfile.ZipFile(broken, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(TableError, match="damaged"):
        read_table(broken)
    monkeypatch.setattr(excel_files, "text_limit", lambda size: 100)
    with pytest.raises(TableError, match="too much for its size"):
        read_table(path)


def test_frames_are_written_with_text_as_text(tmp_path):
    frame = pd.DataFrame(
        {
            "id": ["007", "=1+1", "bell\x07", None],
            "n": ["5", "1.5", "1e5", "x"],
            "x": [1.0, np.nan, np.inf, 2.0],
        }
    )
    write_table(frame, tmp_path / "t.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "t.xlsx").active
    cells = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert cells[0] == ["id", "n", "x"]
    assert [row[0] for row in cells[1:]] == ["007", "=1+1", "bell", None]
    assert sheet["A3"].data_type == "s"  # no formula
    assert [row[1] for row in cells[1:]] == [5, 1.5, "1e5", "x"]
    assert cells[2][2] is None and cells[3][2] == "inf"


def test_too_many_rows_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(excel_files, "MAX_ROWS", 3)
    with pytest.raises(OutputError, match="holds 2 rows, the table has 5"):
        write_table(pd.DataFrame({"a": range(5)}), tmp_path / "t.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_a_workbook_is_corrected_and_other_formats_become_workbooks(book, tmp_path):
    path = book([["a", "label"], [1, "x"], [2, "y"], [3, "x"]])
    for suffix in ("xlsx", "csv", "parquet"):
        new = tmp_path / f"new.{suffix}"
        rewrite_table(read_table(path), new, changes={"label": {1: "z"}}, leave_out=[0])
        found = read_table(new)
        assert found.text("label")[0].tolist() == ["z", "x"]
        assert found.text("a")[0].tolist() == ["2", "3"]
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\n")
    rewrite_table(read_table(tmp_path / "t.csv"), tmp_path / "t2.xlsx", leave_out=[1])
    assert read_table(tmp_path / "t2.xlsx").text("label")[0].tolist() == ["x"]


def test_commands_read_and_write_workbooks(capsys, tmp_path):
    frame = patients()
    frame.to_csv(tmp_path / "t.csv", index=False)
    write_table(frame, tmp_path / "t.xlsx")
    found = []
    for name in ("t.csv", "t.xlsx"):
        code, out, err = call(
            capsys, "audit", tmp_path / name, *FIT, "--json", "--out", tmp_path / "found.xlsx"
        )
        assert code == 0, err
        found.append([(r["row"], r["verdict"]) for r in json.loads(out)["suspicious"]])
    assert found[0] == found[1] and {row - 1 for row, _ in found[0]} >= set(FLIPPED)
    written = read_table(tmp_path / "found.xlsx")
    assert [int(v) for v in written.text("row")[0]] == [row for row, _ in found[1]]
    line = refusal(capsys, "audit", tmp_path / "t.xlsx", *FIT, "--sheet", "nothing")
    assert "no sheet 'nothing'" in line
    line = refusal(capsys, "audit", tmp_path / "t.csv", *FIT, "--sheet", "one")
    assert "no Excel workbook" in line


def test_what_is_needed_is_named(monkeypatch, book):
    path = book([["a", "b"], [1, 2]])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"gemmed\[excel\]"):
        read_table(path)
    assert not excel_files.is_workbook(io.BytesIO(b"PK\x03\x04rest").getvalue())
