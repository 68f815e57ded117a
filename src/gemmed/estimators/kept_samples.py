"""What a fitted model can say of its training samples and of new ones: explain and screen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._core.exceptions import NeighborsReducedWarning
from .._core.types import FloatArray
from ..evidence.distances import (
    MAX_REFERENCES,
    Distances,
    EuclideanDistances,
    KernelDistances,
)
from ..evidence.scaled_along import training_distances
from ..evidence.screening import Screening, TrustedReference, trust_distances, trust_points
from ..model.kernels.landmarks import MIN_TRUST
from ..rows.blocks import BlockRows
from ..rows.foreign_frames import frame_of
from .column_reasons import learn_columns
from .explanation import OK, Verdicts, conflicting_samples, terms_of_states, verdicts_of
from .reasons import Reasons, Verdict


@dataclass(frozen=True, eq=False)
class KeptSamples:
    """Training samples that stay with a model: all, or of a fit from blocks some of each class."""

    X: FloatArray
    """Their rows, or the kernel matrix between them."""
    class_index: np.ndarray
    nominal: FloatArray
    """NaN of samples of weight 0, which take no part."""
    groups: np.ndarray | None
    is_gram: bool = False
    is_part: bool = False
    """Whether there were more."""
    index: np.ndarray | None = None
    """Of the DataFrame that was fitted; None if rows were only counted."""
    names: np.ndarray | None = None
    """Of the columns, where they have names."""

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

    def _present(self) -> tuple[np.ndarray, KeptSamples]:
        """The samples that take part: their rows, and they alone."""
        rows = np.flatnonzero(~np.isnan(self.nominal))
        if len(rows) == len(self.nominal):
            return rows, self
        groups = None if self.groups is None else self.groups[rows]
        some = self.X[rows], self.class_index[rows], self.nominal[rows], groups
        return rows, KeptSamples(*some)

    def training_statistics(self, reference: TrustedReference) -> FloatArray:
        """How far out each of them lies for each class, as if it were new; NaN if absent."""
        rows, kept = self._present()
        reference = replace(
            reference, reference_index=np.searchsorted(rows, reference.reference_index)
        )
        found = np.full((len(self.nominal), len(reference.scales)), np.nan)
        distances = kept.distances
        if not self.is_gram:
            distances = training_distances(kept.X, kept.class_index, kept.groups)
        found[rows] = reference.training_statistics(distances, kept.class_index, kept.groups)
        return found

    def reference(self, n_neighbors: int, class_names: list) -> TrustedReference:
        """The trusted ones among them, and what screening calibrates by."""
        rows, kept = self._present()
        trust = some_of_each_class(kept.nominal, kept.class_index)
        options: dict[str, Any] = {
            "n_neighbors": n_neighbors,
            "groups": kept.groups,
            "random_state": 0,
            "class_names": class_names,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NeighborsReducedWarning)  # said at fit
            if self.is_gram:
                found = trust_distances(kept.distances, kept.class_index, trust, **options)
            else:
                found = trust_points(kept.X, kept.class_index, trust, **options)
        return replace(found, reference_index=rows[found.reference_index])

    def screened(self, X: FloatArray, reference: TrustedReference) -> Screening:
        """p-values of new samples against the reference made of these."""
        if self.is_gram:
            raise ValueError(
                "p_values and screen need k(x, x) of new samples, which a precomputed kernel "
                "matrix does not hold: use kernel_distances and trust_distances of "
                "gemmed.evidence.screening."
            )
        return reference.p_values(X)


def some_of_each_class(nominal: FloatArray, class_index: np.ndarray) -> FloatArray:
    """Nominal probabilities by which at least half of every class is trusted.

    A class may be doubted as a whole; what its rows look like is still known best from the rows
    that are doubted least.
    """
    trust = nominal.copy()
    for z in np.unique(class_index):
        members = np.flatnonzero(class_index == z)
        half = -(-len(members) // 2)
        if np.count_nonzero(nominal[members] >= MIN_TRUST) < half:
            best = members[np.argsort(-nominal[members], kind="stable")[:half]]
            trust[best] = np.maximum(trust[best], MIN_TRUST)
    return trust


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


def explain_samples(model: Any, reference: TrustedReference, output: str | None = None) -> Any:
    """Table of ``GEMMEDClassifier.explain``; its index is that of the DataFrame fitted."""
    kept, classes, found = model._kept, model.classes_, verdicts_of(model)
    class_index, n = kept.class_index, len(kept.class_index)
    own = kept.training_statistics(reference)[np.arange(n), class_index]
    suggested = np.where(found.suggested < 0, class_index, found.suggested)
    doubtful = np.flatnonzero(found.verdicts != OK)
    conflicting = np.empty(n, dtype=object)
    conflicting[:] = [[] for _ in range(n)]
    nearest = conflicting_samples(kept.distances, class_index, reference, doubtful)
    for row, samples in zip(doubtful, nearest, strict=True):
        conflicting[row] = samples
    table = {
        "label": classes[class_index],
        "nominal_proba": kept.nominal,
        "wrong_label_proba": found.states[:, 1],
        "bad_measurement_proba": found.states[:, 2],
        **terms_of_states(
            found.states, model._prior_log_odds, model.contamination_, model.bad_measurement_share_
        ),
        "verdict": found.verdicts,
        "suggested_label": classes[suggested],
        "p_value": np.where(np.isnan(own), np.nan, reference.own_class_p_values(own, class_index)),
        "conflicting": conflicting,
        "suggested_proba": found.held_out[np.arange(n), suggested],
    }
    if not kept.is_gram:
        table |= _reason_columns(kept, found, [str(label) for label in classes])
    return frame_of(table, output, kept.index, {"conflicting": int, "odd_columns": str})


def _reason_columns(kept: KeptSamples, found: Verdicts, classes: list[str]) -> dict[str, Any]:
    """Columns that are odd, and sentences of doubtful rows."""
    n = len(found.verdicts)
    odd, sentences = np.empty(n, dtype=object), np.full(n, "", dtype=object)
    odd[:] = [[] for _ in range(n)]
    names = [f"x{i}" for i in range(kept.X.shape[1])] if kept.names is None else kept.names
    reasons = Reasons(
        learn_columns(
            kept.X,
            [str(name) for name in names],
            {},
            kept.class_index,
            kept.nominal >= 0.5,
            len(classes),
        ),
        classes,
    )
    for row in np.flatnonzero(found.verdicts != OK):
        z, other, held_out = kept.class_index[row], found.suggested[row], found.held_out[row]
        verdict = Verdict(
            str(found.verdicts[row]),
            float(kept.nominal[row]),
            classes[z],
            None if other < 0 else classes[other],
            None if other < 0 else float(held_out[other]),
            float(held_out[z]),
        )
        said = reasons.of(kept.X[row], [], verdict)
        odd[row] = [column.name for column in said.columns if column.odd]
        sentences[row] = " ".join(said.sentences)
    return {"odd_columns": odd, "reasons": sentences}


def index_of(X: Any) -> np.ndarray | None:
    """Row names of a DataFrame that a model can keep: numbers, text or times; None otherwise."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(index, "to_numpy") or getattr(index, "nlevels", 1) > 1:
        return None
    values: np.ndarray = index.to_numpy()
    if values.dtype == object and all(isinstance(value, str) for value in values):
        return values.astype(str)
    return None if values.dtype == object else values
