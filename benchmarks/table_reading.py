"""CPU time of reading a CSV table of 1,000,000 rows and 12 columns, by pyarrow and with care.

python benchmarks/table_reading.py [--rows N]

Read means: every column as ``gemmed fit`` asks for it (ten of numbers, one of them with gaps; one
of categories; one of labels). Both readers must give the same numbers, to the bit.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from gemmed.rows import csv_arrow
from gemmed.rows.tables import read_table


def write(path, n_rows):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(n_rows, 10)).round(6), columns=[f"x{i}" for i in range(10)]
    )
    frame.loc[::17, "x3"] = np.nan
    frame["place"] = rng.choice(["north", "south", "east", "west"], n_rows)
    frame["state"] = rng.choice(["good", "bad"], n_rows)
    frame.to_csv(path, index=False)


def _small(folder):
    path = Path(folder) / "small.csv"
    write(path, 10)
    return path


def read(path):
    """CPU seconds of reading the file and all columns, and the numbers."""
    begin = time.process_time()
    table = read_table(path)
    numbers = [table.only_numbers(f"x{i}", "a benchmark") for i in range(10)]
    table.text("place")
    table.labels("state")
    return time.process_time() - begin, numbers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write(path, rows)
        print(f"{rows} rows, 12 columns, {os.path.getsize(path) / 1e6:.0f} MB")
        read_table(_small(folder))  # imports
        fast, found = min((read(path) for _ in range(3)), key=lambda result: result[0])
        print(f"pyarrow {fast:6.1f} s")
        csv_arrow.is_available = lambda: False
        careful, expected = read(path)
        print(f"careful {careful:6.1f} s, {careful / fast:.1f} times as long")
        for one, other in zip(found, expected, strict=True):
            assert one.tobytes() == other.tobytes()
        print("the numbers are the same")


if __name__ == "__main__":
    main()
