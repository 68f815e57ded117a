"""What a classifier that knows its trusted samples can say of training and of new samples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._core.exceptions import NeighborsReducedWarning
from .._core.types import BoolArray, FloatArray
from ..evidence.distances import Distances, EuclideanDistances, KernelDistances
from ..evidence.screening import (
    MAX_REFERENCES,
    Screening,
    TrustedReference,
    screen,
    trust_distances,
    trust_points,
    warn_out_of_reach,
)
from .explanation import OK, LogOdds, conflicting_samples, judge, split_log_odds
from .kernel_classifier import KernelMarginClassifier
from .training_rows import TrainingRows
from .validation import check_number, check_query_data


class JudgingClassifier(KernelMarginClassifier):
    """Base class: explanations of training samples, screening of new ones."""

    n_neighbors: int
    nominal_proba_: FloatArray
    _trusted_reference: TrustedReference | None
    _training_samples: FloatArray | None
    _kept_rows: np.ndarray | None
    _stuck: BoolArray
    _kept: FloatArray | None

    def explain(self) -> Any:
        """Why each training sample is trusted or not.

        Returns
        -------
        pandas.DataFrame (a dict of arrays without pandas), one row per training sample
            ``label``; ``nominal_proba``; the terms ``prior``, ``margin``, ``entropy`` and
            ``coverage``, which add up to logit(nominal_proba); ``verdict``: "ok", "suspicious
            label", "suspicious measurement" or "both"; ``suggested_label``; ``p_value``: how often
            a trusted sample of its class lies as far out; ``conflicting``: row numbers of the
            nearest trusted samples of other classes, for samples that are not ok.
        """
        check_is_fitted(self)
        reference, statistics, p_values = self._measured_training_samples()
        terms = self._log_odds()
        class_index = self._class_index
        verdicts, suggested = judge(
            self.nominal_proba_, terms, class_index, statistics, self._stuck
        )
        doubtful = np.flatnonzero(verdicts != OK)
        conflicting = np.empty(len(class_index), dtype=object)
        conflicting[:] = [[] for _ in class_index]
        for row, samples in zip(
            doubtful,
            conflicting_samples(self._distances(), class_index, reference, doubtful),
            strict=True,
        ):
            conflicting[row] = samples
        table = {
            "label": self.classes_[class_index],
            "nominal_proba": self.nominal_proba_,
            **terms._asdict(),
            "verdict": verdicts,
            "suggested_label": self.classes_[suggested],
            "p_value": p_values,
            "conflicting": conflicting,
        }
        try:
            import pandas as pd
        except ImportError:
            return table
        return pd.DataFrame(table)

    def p_values(self, X: Any, *, by_class: bool = False) -> FloatArray:
        """How often a trusted sample lies as far out as each row of X.

        Small values mean: like nothing in the trusted training data. On clean data they are
        uniform, or larger. Training samples get theirs from ``explain``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or (n_samples, n_training_samples) for a
            precomputed kernel
        by_class : against each class, shape (n_samples, n_classes); by default against the class
            that fits best, shape (n_samples,)
        """
        check_is_fitted(self)
        X = check_query_data(self, X)
        result = self._screening(X)
        return result.class_p_values if by_class else result.p_values

    def screen(
        self, X: Any, false_alarm_rate: float | None = 0.05, fdr: float | None = None
    ) -> BoolArray:
        """Which rows of X are unlike the trusted training data, shape (n_samples,).

        Parameters
        ----------
        false_alarm_rate : share of the nominal samples that may be called anomalous
        fdr : instead, the share of the alarms in this batch that may be false (Benjamini-Hochberg)
        """
        p_values = self.p_values(X)
        if fdr is not None:
            return screen(p_values, fdr=fdr)
        alarms = screen(p_values, false_alarm_rate=false_alarm_rate)
        warn_out_of_reach(self._reference(), float(false_alarm_rate or 0.0))
        return alarms

    def predict_or_abstain(
        self, X: Any, false_alarm_rate: float = 0.05, *, abstain: Any = None
    ) -> np.ndarray:
        """Predicted classes, with ``abstain`` for rows that ``screen`` calls anomalous.

        Parameters
        ----------
        abstain : what to answer instead of a class; None (the default) gives an object array
        """
        check_number("false_alarm_rate", false_alarm_rate, above=0, at_most=1)
        answers = self.predict(X)
        suspicious = self.screen(X, false_alarm_rate)
        if abstain is None or not np.can_cast(np.min_scalar_type(abstain), answers.dtype):
            answers = answers.astype(object)
        answers[suspicious] = abstain
        return answers

    def _log_odds(self) -> LogOdds:
        """Terms of the log-odds of the training samples."""
        z, sizes = self._class_index, self._class_weights
        return split_log_odds(
            self.nominal_proba_,
            self._prior,
            -self.entropy_duals_[z] / sizes[z] * self.entropy_statistic_,
            self.coverage_duals_[z] / sizes[z],
        )

    def _distances(self) -> Distances:
        if self._training_samples is None:
            raise ValueError(
                "a model that was fitted from blocks keeps no training samples: explain needs "
                "fit(X, y)."
            )
        if self._kernel.name == "precomputed":
            return KernelDistances(self._training_samples)
        return EuclideanDistances(self._training_samples)

    def _reference(self) -> TrustedReference:
        """Trusted samples and their calibration, made when first asked for."""
        if self._trusted_reference is None:
            # All training samples, or those that a fit from blocks kept.
            kept = slice(None) if self._kept_rows is None else self._kept_rows
            options: dict[str, Any] = {
                "n_neighbors": self.n_neighbors,
                "groups": None if self._groups is None else self._groups[kept],
                "random_state": 0,
                "class_names": self.classes_.tolist(),
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NeighborsReducedWarning)  # said at fit
                if self._kernel.name == "precomputed":
                    self._trusted_reference = trust_distances(
                        self._distances(), self._class_index, self.nominal_proba_, **options
                    )
                else:
                    samples = self._training_samples if self._kept_rows is None else self._kept
                    assert samples is not None
                    self._trusted_reference = trust_points(
                        samples, self._class_index[kept], self.nominal_proba_[kept], **options
                    )
        return self._trusted_reference

    def _keep_reference(self, rows: TrainingRows) -> None:
        """Draw the samples that screening needs while the rows can still be read."""
        self._training_samples = None
        rng = np.random.default_rng(0)
        kept = []
        for z in range(len(self.classes_)):
            members = np.flatnonzero(self._class_index == z)
            count = min(len(members), 2 * MAX_REFERENCES)
            kept.append(rng.choice(members, count, replace=False))
        self._kept_rows = np.sort(np.concatenate(kept))
        self._kept = rows.take(self._kept_rows)

    def _screening(self, X: FloatArray) -> Screening:
        reference = self._reference()
        if self._kernel.name != "precomputed":
            return reference.p_values(X)
        raise ValueError(
            "p_values and screen need k(x, x) of new samples, which a precomputed kernel matrix "
            "does not hold: use gemmed.evidence.screening.kernel_distances and trust_distances."
        )

    def _measured_training_samples(self) -> tuple[TrustedReference, FloatArray, FloatArray]:
        """Reference, distances to each class over its scale, and p-values of training samples."""
        reference = self._reference()
        statistics = reference.training_statistics(
            self._distances(), self._class_index, self._groups
        )
        own = statistics[np.arange(len(statistics)), self._class_index]
        return reference, statistics, reference.own_class_p_values(own, self._class_index)
