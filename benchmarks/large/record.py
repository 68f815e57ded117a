"""Measurements on disk: every row is written when it is made, so that a part can be resumed.

A part writes docs/benchmarks/PART.json (build/bench/PART.json with --quick); page.py makes the page
of what is there. --again measures anew.
"""

import argparse
import json
import os
import platform
import resource
import time
from pathlib import Path

import numpy
import scipy
import sklearn

import gemmed

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
QUICK_FOLDER = Path(__file__).parents[2] / "build" / "bench"


def parser(doc):
    """Options that all parts have."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawTextHelpFormatter)
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    made.add_argument("--again", action="store_true", help="forget what was measured before")
    return made


class Record:
    """The rows of a part, each a dict; ``key`` names the entries that identify a row."""

    def __init__(self, part, options, key):
        folder = QUICK_FOLDER if options.quick else FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._key = folder / f"{part}.json", key
        self.rows = []
        if self._path.exists() and not options.again:
            self.rows = json.loads(self._path.read_text())["rows"]

    def find(self, **identity):
        """The row measured before, or None."""
        return next(
            (row for row in self.rows if all(row[name] == identity[name] for name in self._key)),
            None,
        )

    def add(self, **row):
        """Keep a row and say it; the load of the last minute goes with it."""
        row["load"] = round(os.getloadavg()[0], 1)
        self.rows.append(row)
        content = {"setting": setting(), "rows": self.rows}
        temporary = self._path.with_suffix(".part")
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        temporary.replace(self._path)
        print("  ".join(f"{name} {_short(value)}" for name, value in row.items()), flush=True)
        return row


def setting():
    """Where and with what the numbers were made."""
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "gemmed": gemmed.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def timed(function, *arguments, **options):
    """Result, seconds on the clock, and seconds of processor time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def peak_memory():
    """Most memory this process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else value
