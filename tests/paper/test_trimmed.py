"""TrimmedSVC: exact share left out, monotone descent."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed.datasets import make_ring
from gemmed.model.kernels.function_space import function_space
from gemmed.model.kernels.kernel import Kernel
from gemmed.paper.baselines.box_svm import solve_box_svm
from gemmed.paper.baselines.trimmed import TrimmedSVC, keep_largest

pytestmark = pytest.mark.filterwarnings("error")


def ring(n_per_class: int = 50, corruption: float = 0.2, seed: int = 0) -> tuple:
    data = make_ring(
        n_per_class, radius=15, corruption=corruption, layout="separated", random_state=seed
    )
    return data.X, data.y


class TestKeepLargest:
    @pytest.mark.parametrize("left_out", [0.0, 0.1, 0.25, 0.29, 0.5])
    def test_leaves_out_exactly_the_share(self, left_out: float) -> None:
        rng = np.random.default_rng(0)
        weights = rng.uniform(0.0, 2.0, 100)
        keep = keep_largest(rng.normal(size=100), weights, left_out)
        assert weights @ (1.0 - keep) == pytest.approx(left_out * weights.sum())
        assert np.sum((keep > 0) & (keep < 1)) <= 1

    def test_minimises_the_kept_loss(self) -> None:
        margins = np.array([0.3, -2.0, 0.9, -0.1, 0.5])
        keep = keep_largest(margins, np.ones(5), 0.4)
        hinge = np.maximum(1.0 - margins, 0.0)
        assert keep @ hinge == pytest.approx(
            min(hinge[list(c)].sum() for c in combinations(range(5), 3))
        )
        assert keep.tolist() == [1, 0, 1, 0, 1]

    def test_whole_shares_are_whole(self) -> None:
        for n, left_out, count in ((10, 0.3, 3), (100, 0.29, 29), (30, 0.1, 3), (1000, 0.3, 300)):
            keep = keep_largest(np.arange(float(n)), np.ones(n), left_out)
            assert np.array_equal(keep, np.arange(n) >= count)

    def test_a_weight_of_two_is_two_samples(self) -> None:
        single = keep_largest(np.array([0.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0]), 0.25)
        double = keep_largest(np.array([0.0, 0.0, 1.0, 2.0]), np.ones(4), 0.25)
        assert 2.0 * single[0] == pytest.approx(double[:2].sum())
        assert single[1:] == pytest.approx(double[2:])

    def test_zero_weight_takes_no_room(self) -> None:
        keep = keep_largest(np.array([-5.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0]), 0.5)
        assert keep.tolist() == [0.0, 0.0, 1.0]


class TestEstimator:
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    @pytest.mark.parametrize("fraction", [0.1, 0.25])
    def test_path_falls_and_share_is_exact(self, kernel: str, fraction: float) -> None:
        X, y = ring()
        model = TrimmedSVC(kernel, outlier_fraction=fraction, random_state=0).fit(X, y)
        assert model.converged_
        assert np.all(np.diff(model.objective_path_) < 0)
        assert np.sum(1.0 - model.nominal_proba_) == pytest.approx(fraction * len(y))

    def test_every_turn_lowers_the_objective(self) -> None:
        """By hand, without the class: the support vector machine, then the selection."""
        X, y = ring(corruption=0.4, seed=3)
        signs = y.astype(float)
        space, _ = function_space(Kernel("rbf", gamma=0.02), X)
        keep, values = np.ones(len(y)), []
        for _ in range(6):
            fit = solve_box_svm(space, signs, keep)
            hinge = np.maximum(1.0 - fit.margins, 0.0)
            values.append(0.5 * fit.squared_norm + keep @ hinge)
            keep = keep_largest(fit.margins, np.ones(len(y)), 0.2)
            values.append(0.5 * fit.squared_norm + keep @ hinge)
        assert np.all(np.diff(values) <= 1e-7 * values[0])
        model = TrimmedSVC(gamma=0.02, outlier_fraction=0.2, n_starts=1).fit(X, y)
        assert model.objective_ == pytest.approx(values[-1], rel=1e-5)

    def test_objective_is_what_it_says(self) -> None:
        X, y = ring()
        weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
        model = TrimmedSVC("linear", C=2.0, random_state=0).fit(X, y, weights)
        f = (X @ X.T + 1.0) @ model.dual_coef_
        hinge = np.maximum(1.0 - y * f, 0.0)
        value = 0.5 * model.dual_coef_ @ f + 2.0 * (weights * model.nominal_proba_) @ hinge
        assert model.objective_ == pytest.approx(value, rel=1e-6)
        assert weights @ (1.0 - model.nominal_proba_) == pytest.approx(0.1 * weights.sum())

    def test_nothing_left_out_is_the_plain_machine(self) -> None:
        X, y = ring()
        model = TrimmedSVC("linear", outlier_fraction=0.0, n_starts=1).fit(X, y)
        plain = solve_box_svm(
            function_space(Kernel("linear"), X)[0], y.astype(float), np.ones(len(y))
        )
        assert np.all(model.nominal_proba_ == 1)
        assert model.objective_ == pytest.approx(plain.primal, rel=1e-6)

    def test_reaches_the_best_subset_of_a_small_problem(self) -> None:
        """All 66 subsets of 10 of 12 samples, each with its own machine."""
        rng = np.random.default_rng(0)
        signs = np.where(np.arange(12) % 2, 1.0, -1.0)
        X = rng.normal(size=(12, 2)) + 2.0 * signs[:, None]
        X[:2] *= -1.0
        space, _ = function_space(Kernel("linear"), X)
        best = min(
            solve_box_svm(space, signs, np.isin(np.arange(12), kept).astype(float)).primal
            for kept in combinations(range(12), 10)
        )
        model = TrimmedSVC("linear", outlier_fraction=2 / 12, n_starts=20, random_state=0)
        assert model.fit(X, signs).objective_ == pytest.approx(best, rel=1e-5)

    def test_scores_agree_with_the_selection(self) -> None:
        X, y = ring()
        model = TrimmedSVC("rbf", outlier_fraction=0.2, random_state=0).fit(X, y)
        assert np.array_equal(model.anomaly_scores_ > 0.5, model.nominal_proba_ == 0)
        margins = y * model.decision_function(X)
        assert np.all(np.diff(model.anomaly_scores_[np.argsort(margins)]) <= 1e-9)

    @pytest.mark.parametrize("value", [-0.1, 0.6, "auto"])
    def test_errors_name_the_parameter(self, value: object) -> None:
        with pytest.raises(ValueError, match=f"outlier_fraction={value!r}"):
            TrimmedSVC(outlier_fraction=value).fit(*ring(10))  # type: ignore[arg-type]


WEIGHTS = "as for SVC: the random and k-NN starts and the folds differ between repeats and weights"


@parametrize_with_checks(
    [TrimmedSVC()],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": WEIGHTS},
)
def test_scikit_learn_checks(estimator: object, check: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks train on labels that are pure noise
        check(estimator)  # type: ignore[operator]
