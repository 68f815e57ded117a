"""Tables that are read in two ways, or whose content is known: what is read must be the same.

A difference is wrong. A refusal is not, where the file does not say what it holds.
"""

import random
import sys
from pathlib import Path

import numpy as np

from gemmed._core.exceptions import TableError

from .bombs import BOMBS
from .files import Csv, Target
from .limited import run

CODECS = [
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252",
    "cp1250", "cp1251", "cp437", "cp850", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-15",
    "koi8-r", "mac-roman", "shift_jis", "gb18030", "euc-kr", "big5",
]  # fmt: skip
LETTERS = "äöüßÄÖéèñçåøяжшЩЫдβδΩλ漢字表格한글ひらカナabc_XYZ 01€£¥§°µ"


def cells_of(table):
    """Names of the columns, and of each column which cells are there and what they hold."""
    found = {}
    for name in table.columns:
        cells, present = table.text(name)
        numbers = table.numbers(name)[0]
        found[name] = (present.tolist(), cells[present].tolist(), np.nan_to_num(numbers).tolist())
    return found


def outcome(read, *arguments, **options):
    """What was read, or that it was refused."""
    try:
        return cells_of(read(*arguments, **options))
    except TableError:
        return "refused"


class Encodings(Target):
    """Headers and cells of all alphabets in many encodings; the text is known."""

    errors = (TableError,)
    suffix = ".csv"

    def honest(self):
        return [b""] * len(CODECS)

    def case(self, number, rng):
        draw = random.Random(int(rng.integers(2**31)))
        self.codec = CODECS[number % len(CODECS)]
        letters = [
            letter
            for letter in LETTERS
            if letter.encode(self.codec, "ignore").decode(self.codec, "ignore") == letter
        ]
        words = ["".join(draw.choices(letters, k=draw.randint(1, 8))) for _ in range(6)]
        # Marks of missing values and numbers are for other groups.
        self.names = [f"x{words[0]}x", f"y{words[1]}y"]
        self.cells = [f"v{word}v" for word in words[2:]]
        lines = [self.names, self.cells[:2], self.cells[2:]]
        return "".join(",".join(line) + "\n" for line in lines).encode(self.codec)

    def attack(self, path):
        from gemmed.rows.tables import read_table

        try:
            self.compare(read_table(path, encoding=self.codec))
        except TableError as error:
            raise AssertionError(f"{self.codec} is told, and refused: {error}") from error
        try:
            path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            self.compare(read_table(path))

    def compare(self, table):
        assert table.columns == self.names, f"{self.codec}: {table.columns} for {self.names}"
        cells = [table.frame[name].tolist() for name in table.columns]
        expected = [self.cells[::2], self.cells[1::2]]
        assert cells == expected, f"{self.codec}: {cells} for {expected}"


class Readers(Csv):
    """The fast reader against the careful one: the same cells, or refused by both."""

    def attack(self, path):
        from gemmed.rows import csv_arrow
        from gemmed.rows.tables import read_table

        fast, available = outcome(read_table, path), csv_arrow.is_available
        try:
            csv_arrow.is_available = lambda: False
            careful = outcome(read_table, path)
        finally:
            csv_arrow.is_available = available
        assert fast == careful, f"pyarrow reads {fast!r:.80}, the careful reader {careful!r:.80}"
        if fast == "refused":
            raise TableError("by both")


class Formats(Target):
    """The same table as CSV, as Parquet, compressed, and in batches."""

    errors = (TableError,)
    suffix = ".parquet"

    def honest(self):
        return [b""] * 4

    def case(self, number, rng):
        import pyarrow
        from pyarrow import parquet

        n = int(rng.integers(1, 30))
        whole = rng.integers(-(2**62), 2**62, n)
        columns = {
            "whole": pyarrow.array(whole.tolist(), mask=rng.random(n) < rng.choice([0.0, 0.3])),
            "small": pyarrow.array(rng.integers(0, 100, n).astype(rng.choice(["int8", "uint16"]))),
            "number": pyarrow.array((rng.normal(size=n) * 10.0 ** rng.integers(-9, 9)).tolist()),
            "text": pyarrow.array(
                [WORDS[i] for i in rng.integers(len(WORDS), size=n)], mask=rng.random(n) < 0.2
            ),
        }
        names = [name for name in columns if rng.random() < 0.7] or ["whole"]
        self.table = pyarrow.table({name: columns[name] for name in rng.permutation(names)})
        sink = self.folder / "made.parquet"
        options = {"compression": str(rng.choice(["none", "snappy", "gzip", "zstd"]))}
        parquet.write_table(self.table, sink, row_group_size=int(rng.integers(1, 40)), **options)
        self.end = str(rng.choice(["csv", "csv.gz", "csv.bz2", "csv.xz"]))
        return sink.read_bytes()

    def attack(self, path):
        import pandas as pd

        from gemmed.rows.tables import open_batches, read_table

        as_parquet = outcome(read_table, path)
        columns = {name: self.table[name].to_pylist() for name in self.table.column_names}
        other = self.folder / f"made.{self.end}"
        pd.DataFrame(columns, dtype=object).to_csv(other, index=False)
        as_csv = outcome(read_table, other)
        assert as_parquet == as_csv, f"Parquet {as_parquet!r:.90}, {self.end} {as_csv!r:.90}"
        for name in (path, other):
            parts = [cells_of(part) for part in open_batches(name).batches(list(columns))]
            for column, (present, cells, _) in as_csv.items() if as_csv != "refused" else ():
                joined = [[cell for part in parts for cell in part[column][i]] for i in (0, 1)]
                assert joined == [present, cells], f"{name.suffix} in batches: {joined!r:.90}"
        if as_csv == "refused":
            raise TableError("by both")


WORDS = ["größe", "=1+1", "a,b", '"', "漢", "x y", "#1", "'", "a;b", "a\tb", "1,5 kg", "\\n", "é"]

MAKE = """
import sys
from pathlib import Path
from attack.bombs import write_bomb
print(write_bomb(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
"""


class Bombs(Target):
    """Small files that become large: refused in little memory, in batches and at once."""

    errors = (TableError,)

    def honest(self):
        return [b""] * 2 * len(BOMBS)

    def case(self, number, rng):
        names = list(BOMBS)
        self.name = names[number % len(names)]
        self.in_batches = (number // len(names)) % 2 == 1
        path = Path(self.folder) / self.name
        done = run([sys.executable, "-c", MAKE, self.name, path, rng.integers(300, 1500)])
        assert done.returncode == 0, done.stderr
        self.asked = float(done.stdout)
        return path.read_bytes()

    def attack(self, path):
        from gemmed.rows.tables import open_batches, read_table

        named = path.with_name(self.name)
        if not self.in_batches:
            table = read_table(named)
            raise AssertionError(f"{self.name} of {self.asked:.0f} bytes: {len(table)} rows read")
        n_rows = sum(len(part) for part in open_batches(named).batches(["a", "y"]))
        raise AssertionError(f"{self.name} of {self.asked:.0f} bytes: {n_rows} rows in batches")


DIFFERENTIAL = {kind.__name__.lower(): kind for kind in (Encodings, Readers, Formats, Bombs)}
