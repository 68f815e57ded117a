"""Simulated footsteps: humans alone or leading an animal, four sensors that fail at times."""

from .faults import (
    FAULT_KINDS,
    STALE,
    Fault,
    FaultModel,
    draw_bursts,
    faulty_share,
    inject_fault,
)
from .simulation import (
    DURATION,
    LABELS,
    N_SENSORS,
    RATE,
    FootstepData,
    FootstepRecording,
    iter_footsteps,
    make_footsteps,
)

__all__ = [
    "DURATION",
    "FAULT_KINDS",
    "LABELS",
    "N_SENSORS",
    "RATE",
    "STALE",
    "Fault",
    "FaultModel",
    "FootstepData",
    "FootstepRecording",
    "draw_bursts",
    "faulty_share",
    "inject_fault",
    "iter_footsteps",
    "make_footsteps",
]
