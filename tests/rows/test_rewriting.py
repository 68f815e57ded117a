"""Tables written again as they were, with changes."""

import gzip

import pytest

from gemmed._core.exceptions import TableError
from gemmed.rows.rewriting import raw_cells, rewrite_table
from gemmed.rows.tables import read_table

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

ODD = (
    "# made by a logger\r\n"
    ' id ;"value, mV"; label\r\n'
    '007; 1,50 ;"good"\r\n'
    "\r\n"
    '"008";2,5;bad \r\n'
    "# a pause\r\n"
    '009;"";"not; sure ""yet"""\r\n'
    "010;3;good"
)


@pytest.fixture
def odd(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD.encode("latin-1"))
    return read_table(path, encoding="latin-1")


def test_what_is_not_changed_stays_byte_for_byte(odd, tmp_path):
    rewrite_table(odd, tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_bytes() == ODD.encode("latin-1")


def test_only_the_changed_cells_are_touched(odd, tmp_path):
    rewrite_table(
        odd, tmp_path / "new.csv", changes={"label": {0: "bäd", 3: "a;b"}, "value, mV": {2: "7"}}
    )
    expected = (
        ODD.replace('"good"', '"bäd"').replace("3;good", '3;"a;b"').replace('009;""', '009;"7"')
    )
    assert (tmp_path / "new.csv").read_bytes() == expected.encode("latin-1")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# made\na,b\n# mV\n\n1,2\n3,4\n", "# made\na,b,new\n# mV\n\n1,2,u\n3,4,v\n"),
        ('# made\na,"b\nx"\n# mV\n1,2\n3,4\n', '# made\na,"b\nx",new\n# mV\n1,2,u\n3,4,v\n'),
        ("a,b\n1,2,\n3,4,\n5,6,\n", "a,b,,new\n1,2,,u\n3,4,,v\n5,6,,w\n"),
        (
            'a b|c\n"r1"|1|2\n"r2"|3|4\n"r3"|5|6\n',
            'a b|c|new\n"r1"|1|2|u\n"r2"|3|4|v\n"r3"|5|6|w\n',
        ),
        ("# a, b\n1,2\n# mV\n3,4\n", "# a, b,new\n1,2,u\n# mV\n3,4,v\n"),
        ("# x\n# a, b\n\n1,2\n3,4\n", "# x\n# a, b,new\n\n1,2,u\n3,4,v\n"),
    ],
)
def test_the_name_of_a_new_column_is_added_to_the_header(tmp_path, before, after):
    """And not to a comment between the header and the rows."""
    (tmp_path / "t.csv").write_text(before)
    table = read_table(tmp_path / "t.csv")
    rewrite_table(table, tmp_path / "n.csv", added={"new": ["u", "v", "w"][: len(table)]})
    assert (tmp_path / "n.csv").read_text() == after
    assert read_table(tmp_path / "n.csv").columns == [*table.columns, "new"]


def test_rows_are_left_out_and_columns_added(odd, tmp_path):
    rewrite_table(
        odd, tmp_path / "odd.csv", leave_out=[1], added={"flag; x": ["", "no", "bad row", "a\nb"]}
    )
    expected = (
        "# made by a logger\r\n"
        ' id ;"value, mV"; label;"flag; x"\r\n'
        '007; 1,50 ;"good";\r\n'
        "\r\n"
        "# a pause\r\n"
        '009;"";"not; sure ""yet""";bad row\r\n'
        '010;3;good;"a\nb"'
    )
    assert (tmp_path / "odd.csv").read_bytes() == expected.encode("latin-1")
    again = read_table(tmp_path / "odd.csv", encoding="latin-1")
    assert again.text("flag; x")[0].tolist() == ["", "bad row", "a\nb"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,y\n1,p\n2,q\n".encode("utf-8-sig"), "a,y,new\n1,p,u\n2,z,v\n".encode("utf-8-sig")),
        (
            b"\xfe\xff" + "a,y\n1,p\n2,q\n".encode("utf-16-be"),
            b"\xfe\xff" + "a,y,new\n1,p,u\n2,z,v\n".encode("utf-16-be"),
        ),
        (b"1.5,2\n1,3\n", b"1.5,2,u\n1,z,v\n"),
        (b"#a,y\n1,p\n2,q\n", b"#a,y,new\n1,p,u\n2,z,v\n"),
        (b",a,y\n0,1,p\n1,2,q\n", b",a,y,new\n0,1,p,u\n1,2,z,v\n"),
        (gzip.compress(b"a,y\n1,p\n2,q\n"), b"a,y,new\n1,p,u\n2,z,v\n"),
    ],
    ids=["mark", "utf-16", "no header", "header in a comment", "index", "gz"],
)
def test_every_form(tmp_path, content, expected):
    (tmp_path / "t.csv").write_bytes(content)
    table = read_table(tmp_path / "t.csv")
    changes = {table.columns[-1]: {1: "z"}}
    rewrite_table(table, tmp_path / "n.csv", changes=changes, added={"new": ["u", "v"]})
    assert (tmp_path / "n.csv").read_bytes() == expected
    rewrite_table(table, tmp_path / "n.csv.gz", changes=changes, added={"new": ["u", "v"]})
    assert gzip.decompress((tmp_path / "n.csv.gz").read_bytes()) == expected


def test_parquet_keeps_types_and_metadata(tmp_path):
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int16"),
            "kind": pd.Categorical(["a", "b", "a"]),
            "when": pd.date_range("2020-01-01", periods=3),
            "y": ["p", "q", None],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    rewrite_table(
        table,
        tmp_path / "n.parquet",
        changes={"y": {2: "p"}, "n": {0: "7"}, "kind": {1: "c"}},
        leave_out=[1],
        added={"why": ["", "", "x"]},
    )
    new = pd.read_parquet(tmp_path / "n.parquet")
    assert new["n"].tolist() == [7, 3] and str(new["n"].dtype) == "Int16"
    assert new["kind"].tolist() == ["a", "a"] and new["y"].tolist() == ["p", "p"]
    assert new["when"].dtype == frame["when"].dtype and new["why"].tolist() == ["", "x"]
    with pytest.raises(TableError, match="'many' does not fit column 'n'"):
        rewrite_table(table, tmp_path / "x.parquet", changes={"n": {0: "many"}})
    rewrite_table(table, tmp_path / "n.csv", changes={"y": {2: "p"}}, leave_out=[0])
    assert pd.read_csv(tmp_path / "n.csv")["y"].tolist() == ["q", "p"]


def test_what_cannot_be_written_is_one_clear_error(odd, tmp_path):
    target = tmp_path / "new.csv"
    for wrong, message in [
        ({"changes": {"nothing": {0: "x"}}}, "no column 'nothing'"),
        ({"changes": {"label": {4: "x"}}}, "no row at position 4"),
        ({"leave_out": [-1]}, "no row at position -1"),
        ({"changes": {"label": {0: "Łódź"}}}, "'Ł' is not in ISO8859-1"),
        ({"added": {"label": ["x"] * 4}}, "column 'label' already"),
        ({"added": {"new": ["x"]}}, "1 cells for 4 rows"),
    ]:
        with pytest.raises(TableError, match=message):
            rewrite_table(odd, target, **wrong)
    with open(odd.source, "a") as file:
        file.write("\n011;4;good")
    with pytest.raises(TableError, match="changed since it was read"):
        rewrite_table(odd, target)
    assert not target.exists()


@pytest.mark.parametrize("row", ["", "a,b", '"a",b', '"a,""b""",', '"",x', ' "a",b"c,"d"'])
def test_raw_cells_are_the_row(row):
    import csv

    cells = raw_cells(row, ",")
    assert ",".join(cells) == row
    assert len(cells) == max(1, len(next(csv.reader([row]), [""])))
