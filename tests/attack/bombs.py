"""Small files that would become large: every compression of a table, and Parquet.

``BOMBS`` maps a name to a function that writes the file and returns what it asks for in bytes.
"""

import bz2
import gzip
import lzma
import zipfile

ROW = b"1,2,0\n"


STREAM_MEGABYTES = 10
"""Rows are compressed once, in a stream of its own that is repeated."""


def _rows(megabytes):
    return ROW * (megabytes * (10**6 // len(ROW)))


def _streams(path, compress, megabytes):
    """A header and many equal streams; readers go on from one to the next."""
    n_streams = max(1, megabytes // STREAM_MEGABYTES)
    rows = _rows(min(megabytes, STREAM_MEGABYTES))
    path.write_bytes(compress(b"a,b,y\n") + compress(rows) * n_streams)
    return len(rows) * n_streams


def gz(path, megabytes=4000):
    return _streams(path, gzip.compress, megabytes)


def bz2_(path, megabytes=4000):
    return _streams(path, bz2.compress, megabytes)


def xz(path, megabytes=4000):
    return _streams(path, lzma.compress, megabytes)


def zip_(path, megabytes=4000):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("t.csv", "w", force_zip64=True) as file,
    ):
        for _ in range(megabytes):
            file.write(_rows(1))
    return 10**6 * megabytes


def zst(path, megabytes=4000):
    import pyarrow

    return _streams(path, lambda text: pyarrow.compress(text, "zstd", asbytes=True), megabytes)


def parquet_rows(path, rows=2 * 10**9):
    """Equal numbers: run lengths of a dictionary take a few bytes for any number of rows."""
    import pyarrow
    from pyarrow import parquet

    part = pyarrow.table({"a": pyarrow.repeat(1.5, 10**7), "y": pyarrow.repeat(1, 10**7)})
    with parquet.ParquetWriter(path, part.schema, compression="zstd") as writer:
        for _ in range(max(1, rows // 10**7)):
            writer.write_table(part)
    return 16 * rows


def parquet_text(path, rows=2000, length=5 * 10**6):
    """One long text in a dictionary, repeated by its number."""
    import pyarrow
    from pyarrow import parquet

    text = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * rows, pyarrow.int32()), pyarrow.array(["x" * length])
    )
    table = pyarrow.table({"a": text, "y": pyarrow.repeat(1, rows)})
    # Without the schema of pyarrow the column is one of plain texts.
    parquet.write_table(
        table, path, compression="zstd", store_schema=False, dictionary_pagesize_limit=2 * length
    )
    return rows * length


def parquet_delta(path, rows=2000, length=5 * 10**6):
    """Texts that repeat the one before but for a letter (DELTA_BYTE_ARRAY)."""
    import pyarrow
    from pyarrow import parquet

    parts = [pyarrow.array(["x" * length]), pyarrow.array(["x" * length + "y"])]
    column = pyarrow.chunked_array([parts[i % 2] for i in range(rows)])
    table = pyarrow.table({"a": column, "y": pyarrow.repeat(1, rows)})
    parquet.write_table(
        table, path, compression="zstd", use_dictionary=False, store_schema=False,
        column_encoding={"a": "DELTA_BYTE_ARRAY"}, data_page_size=1 << 30,
        write_statistics=False,
    )  # fmt: skip
    return rows * length


def parquet_page(path, megabytes=4000):
    """Zeros in plain pages, compressed."""
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    part = pyarrow.table({"a": np.zeros(10**6), "y": np.zeros(10**6, dtype=np.int64)})
    with parquet.ParquetWriter(
        path, part.schema, compression="zstd", use_dictionary=False
    ) as writer:
        for _ in range(max(1, megabytes // 16)):
            writer.write_table(part)
    return 16 * 10**6 * max(1, megabytes // 16)


BOMBS = {
    "t.csv.gz": gz,
    "t.csv.bz2": bz2_,
    "t.csv.xz": xz,
    "t.csv.zip": zip_,
    "t.csv.zst": zst,
    "rows.parquet": parquet_rows,
    "text.parquet": parquet_text,
    "delta.parquet": parquet_delta,
    "page.parquet": parquet_page,
}


def write_bomb(name, path, megabytes):
    """The bomb of this name with about so many megabytes inside; how many bytes they are."""
    sizes = {"megabytes": megabytes}
    if name == "rows.parquet":
        sizes = {"rows": megabytes * 10**6 // 16}
    elif name in ("text.parquet", "delta.parquet"):
        sizes = {"rows": megabytes // 5, "length": 5 * 10**6}
    return BOMBS[name](path, **sizes)
