"""Patterns in audited rows: slices with many faults, groups of odd rows, conflicting copies.

Everything here works on arrays: columns of a table, and which rows were flagged.
"""

from .odd_groups import LabelConflict, OddGroup, find_conflicts, find_groups
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
