"""Simulated data with ground truth."""

from .ring import Layout, RingData, make_ring

__all__ = ["Layout", "RingData", "make_ring"]
