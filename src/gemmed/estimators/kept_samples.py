"""What a fitted model can say of its training samples and of new ones: explain and screen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.exceptions import NeighborsReducedWarning
from .._core.types import FloatArray
from ..evidence.distances import Distances, EuclideanDistances, KernelDistances
from ..evidence.neighbours import MAX_REFERENCES
from ..evidence.scaled_along import training_distances
from ..evidence.screening import Screening, TrustedReference, trust_distances, trust_points
from ..rows.training_rows import BlockRows
from .explanation import OK, JudgedStates, LogOdds, conflicting_samples, judge, judge_states


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """Training samples that stay with a model: all, or of a fit from blocks some of each class."""

    X: FloatArray
    """Their rows, or the kernel matrix between them."""
    class_index: np.ndarray
    nominal: FloatArray
    groups: np.ndarray | None
    is_gram: bool = False
    is_part: bool = False
    """Whether there were more."""

    def require_all(self) -> None:
        """Refuse what needs every training sample."""
        if self.is_part:
            raise ValueError(
                "a model that was fitted from blocks keeps no training samples: explain needs "
                "fit(X, y)."
            )

    @property
    def distances(self) -> Distances:
        return KernelDistances(self.X) if self.is_gram else EuclideanDistances(self.X)

    def training_statistics(self, reference: TrustedReference) -> FloatArray:
        """How far out each of them lies for each class, as if it were new."""
        if self.is_gram:
            return reference.training_statistics(self.distances, self.class_index, self.groups)
        distances = training_distances(self.X, self.class_index, self.groups)
        return reference.training_statistics(
            distances, self.class_index, self.groups, distances.copies
        )

    def reference(self, n_neighbors: int, class_names: list) -> TrustedReference:
        """The trusted ones among them, and what screening calibrates by."""
        options: dict[str, Any] = {
            "n_neighbors": n_neighbors,
            "groups": self.groups,
            "random_state": 0,
            "class_names": class_names,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NeighborsReducedWarning)  # said at fit
            if self.is_gram:
                return trust_distances(self.distances, self.class_index, self.nominal, **options)
            return trust_points(self.X, self.class_index, self.nominal, **options)

    def screened(self, X: FloatArray, reference: TrustedReference) -> Screening:
        """p-values of new samples against the reference made of these."""
        if self.is_gram:
            raise ValueError(
                "p_values and screen need k(x, x) of new samples, which a precomputed kernel "
                "matrix does not hold: use kernel_distances and trust_distances of "
                "gemmed.evidence.screening."
            )
        return reference.p_values(X)


def keep_some(
    rows: BlockRows, class_index: np.ndarray, nominal: FloatArray, groups: np.ndarray | None
) -> KeptSamples:
    """Draw the samples that screening needs while the rows can still be read."""
    rng = np.random.default_rng(0)
    drawn = []
    for z in range(int(class_index.max()) + 1):
        members = np.flatnonzero(class_index == z)
        drawn.append(rng.choice(members, min(len(members), 2 * MAX_REFERENCES), replace=False))
    kept = np.sort(np.concatenate(drawn))
    own_groups = None if groups is None else groups[kept]
    return KeptSamples(rows.take(kept), class_index[kept], nominal[kept], own_groups, is_part=True)


def explain_samples(
    kept: KeptSamples,
    reference: TrustedReference,
    classes: np.ndarray,
    judged: JudgedStates | LogOdds,
) -> Any:
    """Table of ``GEMMEDClassifier.explain``, from states or from the terms of the paper's model."""
    class_index = kept.class_index
    statistics = kept.training_statistics(reference)
    own = statistics[np.arange(len(statistics)), class_index]
    by_state: dict[str, FloatArray] = {}
    if isinstance(judged, LogOdds):
        terms = judged._asdict()
        verdicts, suggested = judge(kept.nominal, judged, class_index, statistics)
    else:
        terms = judged.terms._asdict()
        wrong, bad = judged.states[:, 1], judged.states[:, 2]
        by_state = {"wrong_label_proba": wrong, "bad_measurement_proba": bad}
        verdicts, suggested = judge_states(judged.states, judged.clean, class_index)
    doubtful = np.flatnonzero(verdicts != OK)
    conflicting = np.empty(len(class_index), dtype=object)
    conflicting[:] = [[] for _ in class_index]
    for row, samples in zip(
        doubtful,
        conflicting_samples(kept.distances, class_index, reference, doubtful),
        strict=True,
    ):
        conflicting[row] = samples
    table = {
        "label": classes[class_index],
        "nominal_proba": kept.nominal,
        **by_state,
        **terms,
        "verdict": verdicts,
        "suggested_label": classes[suggested],
        "p_value": reference.own_class_p_values(own, class_index),
        "conflicting": conflicting,
    }
    try:
        import pandas as pd
    except ImportError:
        return table
    return pd.DataFrame(table)
