"""Simulated data with ground truth, and faults for clean data."""

from .corruption import Corrupted, Corruption, corrupt
from .footsteps import (
    FAULT_KINDS,
    Fault,
    FootstepData,
    inject_fault,
    iter_footsteps,
    make_footsteps,
)
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
