"""What a person has settled of the rows of an audit, and what is left to estimate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._core.types import FloatArray
from ..estimators.verdicts import Verdicts


class Settled(NamedTuple):
    """Positions are those among the rows that have a label."""

    rows: np.ndarray
    """Rows whose labels were confirmed or corrected."""
    bad: np.ndarray
    """Rows that are bad measurements: left out of what is shown."""
    weights: FloatArray
    """Of all rows that have a label."""

    def __bool__(self) -> bool:
        return self.n_checked > 0

    @property
    def n_checked(self) -> int:
        """Rows that a person has judged."""
        return len(self.rows) + len(self.bad)

    def shares(self, found: Verdicts, fitted: np.ndarray) -> tuple[float, dict[str, float]]:
        """Share of the rows that is left in, and shares that estimates count of settled faults.

        All of the weight of the fitted rows; by ranking, joint, label and measurement.
        """
        weights = self.weights[fitted] / self.weights[fitted].sum()
        out = np.isin(fitted, self.bad)
        known = weights * (out | np.isin(fitted, self.rows))
        counted = {"joint": float(known @ (1.0 - found.nominal))}
        if found.states is not None:
            counted["label"] = float(known @ found.states[:, 1])
            counted["measurement"] = float(known @ found.states[:, 2])
        return 1.0 - float(weights @ out), counted


def settled_by_labels(
    labels: np.ndarray, options: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, Settled | None]:
    """Labels to show, and what is settled, if ``known_labels`` are among the options of a fit."""
    known = options.get("known_labels")
    if known is None:
        return labels, None
    rows = np.flatnonzero([label is not None for label in known])
    corrected = labels.copy()
    corrected[rows] = known[rows]
    weights = options.get("sample_weight", np.ones(len(labels)))
    return corrected, Settled(rows, np.empty(0, dtype=np.intp), weights)
