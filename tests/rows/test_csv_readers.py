"""The fast reader and the careful one see the same cells, or the careful one names the error."""

import gzip
import random

import numpy as np
import pytest

from gemmed._core.exceptions import TableError
from gemmed.rows import csv_arrow
from gemmed.rows.tables import read_table

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def seen(path, monkeypatch, *, fast):
    """Everything that a reader finds in a file: names, cells, numbers, notes; or its error."""
    with monkeypatch.context() as patch:
        if not fast:
            patch.setattr(csv_arrow, "is_available", lambda: False)
        try:
            table = read_table(path, missing=("-999",))
        except TableError as error:
            return str(error)
    found = [table.columns, table.notes, table.form, table.decimal_comma]
    for name in table.columns:
        cells, present = table.text(name)
        values, unreadable = table.numbers(name)
        raw = [str(cell) for cell in table.frame[name]]
        found.append([raw, cells.tolist(), present.tolist(), values.tobytes(), unreadable.tolist()])
        assert present.tolist() == table.present(name).tolist()
        assert cells.dtype == object
        found.append(table.labels(name)[0].tolist())
    return found


FILES = {
    "plain": "a,b\n1,2\n3,4\n",
    "no newline at the end": "a,b\n1,2\n3,4",
    "spaces": " a , b\n 1.5, x\n 2 ,\u00a0y \n",
    "decimal comma": "a;b\n1,5;1.5\n1,5,5;2\n1.000,5;1e3\n",
    "missing": "a,b\nNA,1\nnull,?\n-999, n/a\nNaN,#N/A\n",
    "quotes": 'a,b\n"1","x, y"\n"2","say ""no"""\n"","z"\n',
    "newline in quotes": 'a,b\n"1","x\ny"\n2,"#z\r\n"\n',
    "windows": "a,b\r\n1,2\r\n\r\n3,4\r\n",
    "old mac": "a,b\r1,2\r3,4\r",
    "quote inside": 'a,b\n5",x\n6,7"8"\n',
    "text behind a quote": 'a,b\n"5"x,y\n',
    "space before a quote": 'a,b\n1, "x"\n',
    "unclosed quote": 'a,b\n1,"2\n3,4\n',
    "two unclosed quotes": 'a,b\n1,"2\n3,"4\n',
    "ragged": "a,b\n1,2\n3\n",
    "ragged and long": "a,b\n1,2\n3,4,5\n",
    "strange numbers": "a,b\n+1,1e999\n1_0,nan(x)\n0x1F,infinity\n.5,1.\n\u0661,-nan\n1e5,1d5\n",
    "comments": "# made by x\n# v2\na,b\n1,2\n#end\n3,4\n",
    "comments and quotes": '# made "by x\na,b\n1,"2"\n#end\n3,4\n',
    "comment below": "a,b\n1,2\n# a remark\n3,4\n",
    "hash that is data": "a,b\n#1,2\n#2,4\n",
    "utf-8 mark": "\ufeffa,b\n1,ä\n",
    "utf-16": "a,b\n1,ä\n".encode("utf-16"),
    "utf-16 the other way": b"\xfe\xff" + "a,b\n1,ä\n".encode("utf-16-be"),
    "utf-32": "a,b\n1,ä\n".encode("utf-32"),
    "not utf-8": "a,b\n1,2\n1,ä\n".encode("latin-1"),
    "one column": "a\n1\n\n2\n",
    "no header": "1.5,2\n3,4\n5,6\n",
    "index": ",a,b\n0,1,2\n1,3,4\n",
    "index of R": 'a b|c\n"r1"|1|2\n"r2"|3|4\n"r3"|5|6\n',
    "one separator too many": "a,b\n1,2,\n3,4,\n5,6,\n",
    "only a header": "a,b\n",
    "header of two lines": '"a\nx",b\n1,2\n',
    "empty cells": "a,b\n,\n,\n1,2\n",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_both_readers_see_the_same(tmp_path, monkeypatch, content):
    path = tmp_path / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert seen(path, monkeypatch, fast=True) == seen(path, monkeypatch, fast=False)


def test_both_readers_see_the_same_in_random_files(tmp_path, monkeypatch):
    """Files of the marks that matter, most of them broken in some way."""
    rng = random.Random(0)
    path = tmp_path / "t.csv"
    marks = ['"', '"', ",", ",", "\n", "\n", "\r\n", "#", "1", "2.5", "x", " ", ";", "NA"]
    refused = 0
    for _ in range(1500):
        body = "".join(rng.choices(marks, k=rng.randrange(1, 25)))
        path.write_bytes(("a,b\n" + body).encode())
        fast = seen(path, monkeypatch, fast=True)
        assert fast == seen(path, monkeypatch, fast=False), body
        refused += isinstance(fast, str)
    assert 100 < refused < 1490


def test_plain_files_take_the_fast_way(tmp_path, monkeypatch):
    """And what pyarrow alone would misread does not."""
    taken = []
    read = csv_arrow.read_cells
    monkeypatch.setattr(
        csv_arrow, "read_cells", lambda *a: taken.append(read(*a) is not None) or read(*a)
    )
    for name in ("plain", "quotes", "newline in quotes", "comments", "utf-16", "windows"):
        content = FILES[name]
        (tmp_path / "t.csv").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        read_table(tmp_path / "t.csv")
    assert all(taken)
    for name in ("text behind a quote", "two unclosed quotes", "ragged"):
        (tmp_path / "t.csv").write_text(FILES[name])
        with pytest.raises(TableError, match=r"line \d of '.*t.csv'"):
            read_table(tmp_path / "t.csv")
    assert not any(taken[-3:])


def test_long_files_and_long_cells(tmp_path, monkeypatch):
    """Across the blocks that the fast reader parses, and a row that is longer than one."""
    monkeypatch.setattr(csv_arrow, "BLOCK_BYTES", 1000)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=500), "t": rng.choice(["a", 'b "q"\nc'], 500)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv")
    assert table.numbers("x")[0].tobytes() == frame["x"].to_numpy().tobytes()
    assert table.text("t")[0].tolist() == frame["t"].tolist()
    (tmp_path / "t.csv").write_text(f"a,b\n1,{'x' * 5000}\n2,y\n")
    assert len(read_table(tmp_path / "t.csv").text("b")[0][0]) == 5000


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_compressed_files(tmp_path, kind):
    import bz2
    import lzma

    module = {"gz": gzip, "bz2": bz2, "xz": lzma}[kind]
    path = tmp_path / "table.anything"
    path.write_bytes(module.compress(b"a,b\n1,x\n2,y\n"))
    table = read_table(path)
    assert table.numbers("a")[0].tolist() == [1, 2] and table.form.compression == kind
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(TableError, match=f"damaged {kind} file"):
        read_table(path)
