"""Simulated data with ground truth, and faults for clean data.

Examples
--------
The faults and layouts that can be asked for:

>>> from typing import get_args
>>> from gemmed.datasets import FAULT_KINDS, Corruption, Layout
>>> get_args(Layout)
('paper', 'separated')
>>> get_args(Corruption)[:3]
('flips', 'one-sided flips', 'feature noise')
>>> sorted(FAULT_KINDS)[:3]
['clipping', 'dropout', 'gain_loss']
"""

from .corruption import Corrupted, Corruption, corrupt
from .footsteps.faults import FAULT_KINDS, Fault, inject_fault
from .footsteps.simulation import FootstepData, iter_footsteps, make_footsteps
from .ring import Layout, RingData, make_ring

__all__ = [
    "FAULT_KINDS",
    "Corrupted",
    "Corruption",
    "Fault",
    "FootstepData",
    "Layout",
    "RingData",
    "corrupt",
    "inject_fault",
    "iter_footsteps",
    "make_footsteps",
    "make_ring",
]
