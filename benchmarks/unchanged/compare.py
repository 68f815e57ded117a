"""Does the code still compute what version 0.5.0 computed? Same data, same seeds, same machine.

python benchmarks/unchanged/compare.py            compare with the stored numbers
python benchmarks/unchanged/compare.py --write    store the numbers of the version that runs

Exits with 1 if a number differs by more than 1e-6 of the largest of its array.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from fits import all_numbers

STORED = Path(__file__).with_name("numbers-0.5.0.npz")
EQUAL, ORDER_OF_SUMS = 1e-10, 1e-6


def difference(old, new):
    """Largest difference over the largest entry; infinite where shapes differ."""
    if old.shape != new.shape:
        return np.inf
    scale = max(1.0, float(np.abs(old).max(initial=0.0)))
    return float(np.abs(old - new).max(initial=0.0)) / scale


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = all_numbers()
    if options.write:
        np.savez_compressed(STORED, **found)
        return 0
    stored = np.load(STORED)
    by_fit = {}
    for name in stored.files:
        fit, what = name.split("/")
        missing = np.empty((0, 0, 0))
        by_fit.setdefault(fit, {})[what] = difference(stored[name], found.get(name, missing))
    for fit, differences in by_fit.items():
        worst = max(differences, key=differences.get)
        largest = differences[worst]
        word = "equal" if largest <= EQUAL else "close" if largest <= ORDER_OF_SUMS else "DIFFERS"
        print(f"{fit:24s} {word:8s} {largest:8.1e}  {worst}")
    return int(any(max(d.values()) > ORDER_OF_SUMS for d in by_fit.values()))


if __name__ == "__main__":
    sys.exit(main())
