"""TwoStageClassifier: exact class-wise rates, any detector, no influence of test data."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed.datasets import make_ring
from gemmed.paper.baselines.med_detector import MEDDetector
from gemmed.paper.baselines.two_stage import TwoStageClassifier, training_scores

pytestmark = pytest.mark.filterwarnings("error")

DETECTORS = [
    IsolationForest(n_estimators=20, random_state=0),
    LocalOutlierFactor(n_neighbors=10),
    LocalOutlierFactor(n_neighbors=10, novelty=True),
    EllipticEnvelope(random_state=0),
    OneClassSVM(gamma=0.01),
    MEDDetector(),
]


def blobs(sizes: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centres = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    order = rng.permutation(len(y))
    return (rng.normal(size=(len(y), 2)) + centres[y])[order], y[order]


class TestScreening:
    @pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: type(d).__name__)
    @pytest.mark.parametrize("rate", [0.05, 0.29])
    def test_every_class_loses_exactly_its_share(self, detector: Any, rate: float) -> None:
        X, y = blobs((100, 33, 60))
        model = TwoStageClassifier(detector, LogisticRegression(), rate).fit(X, y)
        lost = [int(model.screened_[y == label].sum()) for label in range(3)]
        assert lost == ([5, 1, 3] if rate == 0.05 else [29, 9, 17])

    @pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: type(d).__name__)
    def test_far_samples_go_first(self, detector: Any) -> None:
        # As many far samples as are screened; scattered, because a cluster would hide from LOF.
        X, y = blobs((100, 100))
        far = np.concatenate([np.flatnonzero(y == 0)[:5], np.flatnonzero(y == 1)[:5]])
        angle = np.linspace(0.0, 5.0, 10)
        X[far] = [4.0, 0.0] + 60.0 * np.column_stack([np.cos(angle), np.sin(angle)])
        model = TwoStageClassifier(detector, SVC(), 0.05).fit(X, y)
        assert np.array_equal(np.flatnonzero(model.screened_), np.sort(far))

    def test_classifier_sees_the_rest_only(self) -> None:
        X, y = blobs((60, 60))
        model = TwoStageClassifier(DETECTORS[0], SVC(), 0.2).fit(X, y)
        direct = SVC().fit(X[~model.screened_], y[~model.screened_])
        assert np.array_equal(model.decision_function(X), direct.decision_function(X))

    def test_rate_zero_is_the_classifier_alone(self) -> None:
        X, y = blobs((40, 40))
        model = TwoStageClassifier(DETECTORS[0], SVC(), 0.0).fit(X, y)
        assert not model.screened_.any() and model.detectors_ == [None, None]
        assert np.array_equal(model.decision_function(X), SVC().fit(X, y).decision_function(X))

    @pytest.mark.parametrize("size", [1, 2, 19])
    @pytest.mark.parametrize("detector", [*DETECTORS, None], ids=lambda d: type(d).__name__)
    def test_tiny_class_is_kept_whole(self, detector: Any, size: int) -> None:
        X, y = blobs((100, size))
        model = TwoStageClassifier(detector, SVC(), 0.05).fit(X, y)
        assert not model.screened_[y == 1].any() and model.screened_[y == 0].sum() == 5
        assert model.detectors_[1] is None and not model.anomaly_scores_[y == 1].any()
        assert model.classes_.tolist() == [0, 1]

    def test_scores_are_ranks_inside_the_class(self) -> None:
        X, y = blobs((50, 20))
        model = TwoStageClassifier(DETECTORS[-1], SVC(), 0.1).fit(X, y)
        for label, n in ((0, 50), (1, 20)):
            scores = model.anomaly_scores_[y == label]
            assert np.sort(scores) == pytest.approx(np.arange(n) / n)
            screened = model.screened_[y == label]
            assert scores[screened].min() > scores[~screened].max()

    def test_classes_are_screened_independently(self) -> None:
        X, y = blobs((50, 50))
        before = TwoStageClassifier(DETECTORS[0], SVC(), 0.1).fit(X, y)
        X[y == 1] *= 7.0
        after = TwoStageClassifier(DETECTORS[0], SVC(), 0.1).fit(X, y)
        assert np.array_equal(before.screened_[y == 0], after.screened_[y == 0])


class KNNDetector(BaseEstimator):
    """Scores by neighbours; asked for a training sample, it finds the sample itself."""

    def __init__(self, keep_scores: bool = True) -> None:
        self.keep_scores = keep_scores

    def fit(self, X: np.ndarray, y: object = None) -> KNNDetector:
        self._index = NearestNeighbors(n_neighbors=1).fit(X)
        if self.keep_scores:
            self.training_scores_ = -self._index.kneighbors()[0][:, 0]
        return self

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return -self._index.kneighbors(X)[0][:, 0]


class Reversed(BaseEstimator):
    """PyOD's convention: high decision scores are anomalous."""

    def fit(self, X: np.ndarray, y: object = None) -> Reversed:
        self.decision_scores_ = np.abs(X - np.median(X, axis=0)).sum(axis=1)
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        return np.abs(X).sum(axis=1)


class TestTrainingScores:
    def test_kept_scores_come_before_self_matches(self) -> None:
        X = np.array([[0.0], [1.0], [5.0]])
        assert training_scores(KNNDetector().fit(X), X) == pytest.approx([-1.0, -1.0, -4.0])
        assert training_scores(KNNDetector(False).fit(X), X) == pytest.approx([0.0, 0.0, 0.0])

    def test_novelty_factor_is_that_of_training(self) -> None:
        X, _ = blobs((50,))
        detector = LocalOutlierFactor(novelty=True).fit(X)
        assert np.array_equal(training_scores(detector, X), detector.negative_outlier_factor_)

    def test_reversed_convention(self) -> None:
        X, y = blobs((40, 40))
        worst = int(np.flatnonzero(y == 0)[0])
        X[worst] = [50.0, 50.0]
        model = TwoStageClassifier(Reversed(), SVC(), 0.025).fit(X, y)
        assert model.screened_[worst]

    def test_detector_without_scores_is_refused(self) -> None:
        X, y = blobs((40, 40))
        with pytest.raises(ValueError, match="does not rank its training samples"):
            TwoStageClassifier(Scoreless(), SVC()).fit(X, y)


class Scoreless(BaseEstimator):
    def fit(self, X: np.ndarray, y: object = None) -> Scoreless:
        return self


class TestPrediction:
    def test_test_data_have_no_influence(self) -> None:
        data = make_ring(60, radius=15, n_test_per_class=50, random_state=0)
        model = TwoStageClassifier(DETECTORS[0], SVC(), 0.2).fit(data.X, data.y)
        state = pickle.dumps(model)
        alone = np.array([model.decision_function(row[None])[0] for row in data.X_test])
        together = model.decision_function(np.vstack([data.X_test, 1e6 * data.X_test]))
        assert together[: len(alone)] == pytest.approx(alone, abs=1e-12)
        assert pickle.dumps(model) == state

    def test_training_samples_are_predicted_even_if_screened(self) -> None:
        X, y = blobs((60, 60))
        model = TwoStageClassifier(DETECTORS[0], SVC(), 0.2).fit(X, y)
        assert model.predict(X).shape == y.shape

    def test_methods_are_those_of_the_classifier(self) -> None:
        assert not hasattr(TwoStageClassifier(classifier=RidgeClassifier()), "predict_proba")
        assert hasattr(TwoStageClassifier(classifier=RidgeClassifier()), "decision_function")
        assert hasattr(TwoStageClassifier(classifier=LogisticRegression()), "predict_proba")
        assert hasattr(TwoStageClassifier(), "predict_proba")

    def test_many_classes(self) -> None:
        X, y = blobs((60, 60, 60))
        names = np.array(["a", "b", "c"])[y]
        model = TwoStageClassifier(DETECTORS[1], LogisticRegression(), 0.1).fit(X, names)
        assert model.score(X, names) > 0.98
        assert model.predict_proba(X).shape == (180, 3)

    def test_defaults_are_ours(self) -> None:
        X, y = blobs((40, 40))
        model = TwoStageClassifier().fit(X, y)
        assert type(model.classifier_).__name__ == "MEDClassifier"
        assert {type(d).__name__ for d in model.detectors_} == {"GEMDetector"}
        assert np.array_equal(TwoStageClassifier().fit(X, y).screened_, model.screened_)

    def test_groups_reach_the_detector(self) -> None:
        # A pair of twins far out: neighbours of each other, unless they are one recording.
        X, y = blobs((60, 60))
        twins = np.flatnonzero(y == 0)[:2]
        X[twins] = [[60.0, 60.0], [60.0, 60.0]]
        groups = np.arange(len(y))
        groups[twins] = twins[0]
        from gemmed.estimators.detector import GEMDetector

        detector = GEMDetector("leave_one_out", n_neighbors=1)
        alone = TwoStageClassifier(detector, SVC(), 2 / 60).fit(X, y)
        grouped = TwoStageClassifier(detector, SVC(), 2 / 60).fit(X, y, groups=groups)
        assert not alone.screened_[twins].any()
        assert grouped.screened_[twins].all()


class TestErrors:
    @pytest.mark.parametrize("rate", [-0.1, 0.7, None])
    def test_rate(self, rate: Any) -> None:
        with pytest.raises(ValueError, match=f"false_alarm_rate={rate!r}"):
            TwoStageClassifier(false_alarm_rate=rate).fit(*blobs((20, 20)))

    def test_components(self) -> None:
        with pytest.raises(ValueError, match="detector=3 has no fit method"):
            TwoStageClassifier(3).fit(*blobs((20, 20)))
        with pytest.raises(ValueError, match=r"classifier=.* has no fit method"):
            TwoStageClassifier(classifier=SVC).fit(*blobs((20, 20)))

    def test_precomputed_kernel(self) -> None:
        with pytest.raises(ValueError, match="kernel matrix"):
            TwoStageClassifier(DETECTORS[0], SVC(kernel="precomputed")).fit(np.eye(4), [0, 0, 1, 1])

    def test_groups_without_a_taker(self) -> None:
        X, y = blobs((20, 20))
        with pytest.raises(ValueError, match="does not take groups"):
            TwoStageClassifier(DETECTORS[0], LinearSVC()).fit(X, y, groups=y)


@parametrize_with_checks(
    [
        TwoStageClassifier(IsolationForest(n_estimators=5, random_state=0), SVC(), 0.1),
        TwoStageClassifier(),
    ]
)
def test_scikit_learn_checks(estimator: object, check: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # n_neighbors is too large for the data of some checks
        check(estimator)  # type: ignore[operator]
