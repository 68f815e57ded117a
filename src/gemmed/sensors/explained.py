"""What is wrong with each training sample, and with which of its sensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.types import FloatArray
from ..rows.foreign_frames import frame_of
from .screens import SensorScreen


def explained(
    y: np.ndarray,
    classes: np.ndarray,
    names: tuple[str, ...],
    broken_proba: FloatArray,
    no_good_sensor: FloatArray,
    wrong: FloatArray,
    true_label: FloatArray,
    nominal: FloatArray,
    output: str | None = None,
) -> Any:
    """A table with a row a sample, of the kind that ``output`` says."""
    broken, label, hopeless = broken_proba > 0.5, wrong > 0.5, no_good_sensor > 0.5
    verdict = np.full(len(label), "ok", dtype=object)
    verdict[label] = "suspicious label"
    verdict[broken.any(axis=1)] = "broken sensor"
    verdict[label & broken.any(axis=1)] = "both"
    verdict[hopeless] = "no good sensor"
    screened = SensorScreen(names, broken, broken_proba, np.zeros_like(broken), hopeless)
    columns: dict[str, Any] = {
        "label": y,
        "nominal_proba": nominal,
        "verdict": verdict,
        "sensors": np.array([", ".join(own) for own in screened.named()], dtype=object),
        "suggested_label": np.where(hopeless, y, classes[np.argmax(true_label, axis=1)]),
        **{f"broken_{name}": broken_proba[:, view] for view, name in enumerate(names)},
    }
    return frame_of(columns, output)
