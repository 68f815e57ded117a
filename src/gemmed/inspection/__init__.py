"""Patterns in audited rows: slices with many faults, groups of odd rows, conflicting copies.

Everything here works on arrays: columns of a table, and which rows were flagged.
"""

from __future__ import annotations

from .label_conflicts import LabelConflict, find_conflicts
from .odd_groups import OddGroup, find_groups
from .slices import Slice, SliceColumn, find_slices

__all__ = [
    "LabelConflict",
    "OddGroup",
    "Slice",
    "SliceColumn",
    "find_conflicts",
    "find_groups",
    "find_slices",
]
