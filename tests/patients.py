"""A table of patients with some wrong labels, and the commands that are run on it."""

import subprocess
import sys

import numpy as np
import pytest

from gemmed.cli import main

pd = pytest.importorskip("pandas")

FIT = ["--base", "none", "--target", "diagnosis", "--drop", "visit"]
"""Without the forest, which takes most of the time of a small fit."""
FLIPPED = [3, 14, 27, 55, 80, 101, 116, 133]
"""Positions of rows with the wrong label; the row numbers are one more."""


def patients(n=160):
    """Two classes eight units apart in both measurements; the labels of FLIPPED are wrong."""
    rng = np.random.default_rng(0)
    ill = rng.permutation(n) % 2 == 0
    given = ill.copy()
    given[FLIPPED] = ~given[FLIPPED]
    return pd.DataFrame(
        {
            "patient": [f"P{i:03d}" for i in range(n)],
            "age": rng.normal(size=n) + 8.0 * ill,
            "dose": rng.normal(size=n) + 8.0 * ill,
            "ward": rng.choice(["north", "south"], n),
            "visit": np.arange(n) // 4,
            "diagnosis": np.where(given, "ill", "well"),
        }
    )


def run(*arguments, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "gemmed", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        input=stdin,
    )


def call(capsys, *arguments):
    """Exit code, output and error output of a command."""
    capsys.readouterr()
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys, *arguments):
    """The one line of an error."""
    code, out, err = call(capsys, *arguments)
    lines = [line for line in err.splitlines() if not line.startswith("gemmed: note: ")]
    assert (code, out, len(lines)) == (2, "", 1), err
    assert lines[0].startswith("gemmed: error: ")
    return lines[0]
