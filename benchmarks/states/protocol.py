"""Tables and damage of benchmarks/quality, drawn by a seed alone, for studies of single steps."""

import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

sys.path.insert(0, str(Path(__file__).parents[1] / "quality"))
import cells
from cells import split
from cells import table_names as tables

__all__ = ["CELLS", "average_precision", "damage", "split", "tables"]
CELLS = ("clean", "mixed", "one-sided", "flips 20", "flips 40", "cluster")


def damage(X, y, cell, seed):
    """Rows and labels with faults, which labels are wrong and which rows are bad."""
    return cells.damage(X, y, cell, np.random.default_rng([seed, 11]))[:4]


def average_precision(truth, score):
    """NaN where there is nothing to find."""
    if not truth.any() or truth.all():
        return np.nan
    return float(average_precision_score(truth, score))
