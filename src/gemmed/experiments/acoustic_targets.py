"""The targets of ``gemmed reproduce`` that are about sound."""

from __future__ import annotations

from pathlib import Path

from .footsteps_targets import FOOTSTEPS, footsteps_target
from .recordings_targets import RECORDINGS, recordings_target
from .targets import Target

NAMES = (FOOTSTEPS, RECORDINGS)


def acoustic_target(name: str, *, data: str | Path | None) -> Target:
    """``footsteps`` simulates its data, ``recordings`` reads them from a folder."""
    return footsteps_target() if name == FOOTSTEPS else recordings_target(data)
