"""RampSVC and the box-constrained support vector machine inside it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed._core.exceptions import GemmedWarning
from gemmed.datasets import make_ring
from gemmed.model.kernels.function_space import FunctionSpace, function_space
from gemmed.model.kernels.kernel import Kernel
from gemmed.paper.baselines import ramp
from gemmed.paper.baselines.box_svm import BoxSVM, held_out_margins, solve_box_svm
from gemmed.paper.baselines.ramp import RampSVC

pytestmark = pytest.mark.filterwarnings("error")

KERNELS = {
    "linear": Kernel("linear"),
    "rbf": Kernel("rbf", gamma=0.02),
    "poly": Kernel("poly", 0.1),
}


def problem(
    kernel: str, n_per_class: int = 40, seed: int = 0, radius: float = 15.0
) -> tuple[FunctionSpace, np.ndarray]:
    data = make_ring(n_per_class, radius=radius, n_test_per_class=0, random_state=seed)
    return function_space(KERNELS[kernel], data.X)[0], data.y.astype(float)


def flipped(n: int = 120, share: float = 0.15, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two separated classes with wrong labels deep inside the other class."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) + 3.0 * y[:, None]
    return X, np.where(rng.uniform(size=n) < share, -y, y)


def ramp_objective(model: RampSVC, X: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> float:
    """The objective from its definition, with a Gram matrix of its own."""
    gram = model._function.kernel.between(X, X)
    f = gram @ model.dual_coef_
    loss = np.minimum(1.0 - model.s, np.maximum(1.0 - signs * f, 0.0))
    return 0.5 * model.dual_coef_ @ f + model.C * weights @ loss


class TestBoxSVM:
    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
    def test_agrees_with_a_cone_solver(self, kernel: str, C: float) -> None:
        cvxpy = pytest.importorskip("cvxpy")
        space, signs = problem(kernel, n_per_class=25)
        costs = C * np.random.default_rng(0).uniform(0.5, 2.0, len(signs))
        fit = solve_box_svm(space, signs, costs)
        Phi = signs[:, None] * space.features()
        a = cvxpy.Variable(len(signs))
        dual = cvxpy.sum(a) - 0.5 * cvxpy.sum_squares(Phi.T @ a)
        reference = cvxpy.Problem(cvxpy.Maximize(dual), [a >= 0, a <= costs])
        reference.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
        assert fit.primal == pytest.approx(reference.value, rel=1e-6)
        assert fit.primal - fit.gap == pytest.approx(reference.value, rel=1e-6)

    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("C", [1e-4, 1.0, 1e3])
    def test_satisfies_the_optimality_conditions(self, kernel: str, C: float) -> None:
        space, signs = problem(kernel)
        costs = np.full(len(signs), C)
        fit = solve_box_svm(space, signs, costs)
        assert fit.converged
        assert np.all((fit.alpha >= 0) & (fit.alpha <= costs))
        gram = np.outer(signs, signs) * space.gram()
        slope = 1.0 - gram @ fit.alpha
        assert np.allclose(
            1.0 - slope, fit.margins, atol=1e-8 * max(1.0, np.abs(fit.margins).max())
        )
        # No first-order move inside the box can gain more than the tolerance.
        gain = np.maximum(slope, 0) * (costs - fit.alpha) + np.maximum(-slope, 0) * fit.alpha
        assert gain.sum() <= 2e-8 * fit.primal

    def test_two_samples_in_closed_form(self) -> None:
        # G = k I: a = min(c, 1 / k) each.
        space, _ = function_space(Kernel("precomputed", bias_variance=0.0), 4.0 * np.eye(2))
        fit = solve_box_svm(space, np.array([-1.0, 1.0]), np.array([1.0, 0.1]))
        assert fit.alpha == pytest.approx([0.25, 0.1], rel=1e-6)

    def test_features_and_gram_matrix_give_the_same_function(self) -> None:
        data = make_ring(40, n_test_per_class=0, random_state=1)
        signs, costs = data.y.astype(float), np.ones(80)
        by_features = solve_box_svm(function_space(Kernel("linear"), data.X)[0], signs, costs)
        gram = Kernel("linear", bias_variance=0.0).between(data.X, data.X)
        by_gram = solve_box_svm(function_space(Kernel("precomputed"), gram)[0], signs, costs)
        assert by_features.primal == pytest.approx(by_gram.primal, rel=1e-7)
        assert by_features.margins == pytest.approx(by_gram.margins, abs=1e-4)

    def test_costs_of_zero_equal_removal(self) -> None:
        data = make_ring(40, n_test_per_class=0, random_state=1)
        signs = data.y.astype(float)
        costs = np.where(np.arange(80) % 3, 1.0, 0.0)
        kept = costs > 0
        whole = solve_box_svm(function_space(KERNELS["rbf"], data.X)[0], signs, costs)
        part = solve_box_svm(
            function_space(KERNELS["rbf"], data.X[kept])[0], signs[kept], costs[kept]
        )
        assert whole.alpha[kept] == pytest.approx(part.alpha, abs=1e-6)
        assert np.all(whole.alpha[~kept] == 0)

    def test_no_sample_at_all_gives_zero(self) -> None:
        space, signs = problem("rbf")
        fit = solve_box_svm(space, signs, np.zeros(len(signs)))
        assert fit.primal == 0.0 and fit.converged and not fit.margins.any()

    def test_singular_kernel_with_duplicates(self) -> None:
        X = np.repeat(np.array([[0.0], [1.0], [2.0]]), 20, axis=0)
        signs = np.where(X[:, 0] > 0.5, 1.0, -1.0)
        fit = solve_box_svm(function_space(Kernel("rbf"), X)[0], signs, np.ones(60))
        assert fit.converged and fit.gap <= 1e-8 * fit.primal

    def test_held_out_margins_do_not_see_the_sample(self) -> None:
        space, signs = problem("rbf")
        costs = np.ones(len(signs))
        margins = held_out_margins(space, signs, costs, tol=1e-8)
        members = np.flatnonzero(signs > 0)
        without = costs.copy()
        without[members[::5]] = without[np.flatnonzero(signs < 0)[::5]] = 0.0
        expected = solve_box_svm(space, signs, without).margins[members[0]]
        assert margins[members[0]] == pytest.approx(expected, abs=1e-5)

    def test_multipliers_reach_their_bounds_exactly(self) -> None:
        """A function of three features has at most three samples exactly on its margin."""
        space, signs = problem("linear", n_per_class=60)
        alpha = solve_box_svm(space, signs, np.ones(120)).alpha
        assert np.sum((alpha > 0) & (alpha < 1)) <= 3
        assert np.sum(alpha == 0) > 10 and np.sum(alpha == 1) > 10


class TestDescent:
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    @pytest.mark.parametrize("s", [0.0, -1.0])
    def test_no_step_of_any_start_raises_the_objective(
        self, monkeypatch: pytest.MonkeyPatch, kernel: str, s: float
    ) -> None:
        """Recomputed at every fit, from the margins: the accepted path would hide a rise."""
        values: list[list[float]] = []
        solve, descend = ramp.solve_box_svm, RampSVC._descend

        def spy(
            space: FunctionSpace, signs: np.ndarray, costs: np.ndarray, *, tol: float
        ) -> BoxSVM:
            fit = solve(space, signs, costs, tol=tol)
            loss = np.minimum(1.0 - s, np.maximum(1.0 - fit.margins, 0.0))
            values[-1].append(0.5 * fit.squared_norm + loss.sum())
            return fit

        def note_start(self: RampSVC, *args: object) -> object:
            values.append([])
            return descend(self, *args)

        monkeypatch.setattr(ramp, "solve_box_svm", spy)
        monkeypatch.setattr(RampSVC, "_descend", note_start)
        data = make_ring(60, radius=15, corruption=0.4, n_test_per_class=0, random_state=2)
        model = RampSVC(kernel, s=s, n_starts=6, random_state=0).fit(data.X, data.y)
        assert len(values) == 6 and max(map(len, values)) >= 3
        for path in values:
            assert all(b <= a * (1.0 + 1e-6) for a, b in itertools.pairwise(path))
        assert model.objective_ == pytest.approx(min(p[-1] for p in values), rel=1e-6)
        assert np.all(np.diff(model.objective_path_) < 0)

    def test_objective_is_what_it_says(self) -> None:
        X, y = flipped()
        weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
        model = RampSVC(gamma=0.1, C=2.0, s=-0.5, random_state=0).fit(X, y, weights)
        assert model.converged_
        assert model.objective_ == pytest.approx(ramp_objective(model, X, y, weights), rel=1e-8)
        assert model.objective_ == model.objective_path_[-1]
        assert model.n_iter_ == len(model.objective_path_)

    def test_fixed_point_refits_to_itself(self) -> None:
        X, y = flipped()
        model = RampSVC("linear", random_state=0).fit(X, y)
        kept = model.nominal_proba_ == 1
        assert 0 < (~kept).sum() < len(y)
        again = solve_box_svm(function_space(Kernel("linear"), X)[0], y, kept.astype(float))
        assert y * model.decision_function(X) == pytest.approx(again.margins, abs=1e-4)

    def test_more_starts_never_end_higher(self) -> None:
        data = make_ring(50, radius=15, corruption=0.4, n_test_per_class=0, random_state=5)
        ends = [
            RampSVC("linear", n_starts=n, random_state=0).fit(data.X, data.y).objective_
            for n in (1, 2, 4, 8)
        ]
        assert np.all(np.diff(ends) <= 1e-9)

    def test_without_outliers_it_is_the_plain_machine(self) -> None:
        X, y = flipped(share=0.0)
        model = RampSVC("linear", n_starts=1).fit(X, y)
        plain = solve_box_svm(function_space(Kernel("linear"), X)[0], y, np.ones(len(y)))
        assert np.all(model.nominal_proba_ == 1)
        assert y * model.decision_function(X) == pytest.approx(plain.margins, abs=1e-4)


class TestEstimator:
    def test_wrong_labels_are_left_out(self) -> None:
        X, y = flipped()
        truth = np.where(np.arange(len(y)) % 2, 1.0, -1.0)
        model = RampSVC(random_state=0).fit(X, y)
        assert np.array_equal(model.nominal_proba_ == 0, y != truth)
        assert np.array_equal(model.predict(X), truth)

    def test_scores_rank_by_margin_and_agree_with_the_flags(self) -> None:
        X, y = flipped()
        X[0] *= 1e4  # far out on the right or the wrong side
        model = RampSVC("linear", s=-0.5, random_state=0).fit(X, y)
        margins = y * model.decision_function(X)
        order = np.argsort(margins)
        assert np.all(np.diff(model.anomaly_scores_[order]) < 0)
        assert np.array_equal(model.anomaly_scores_ > 0.5, model.nominal_proba_ == 0)
        assert np.all((model.anomaly_scores_ > 0) & (model.anomaly_scores_ < 1))

    def test_scores_are_one_half_at_the_threshold(self) -> None:
        scores = ramp.anomaly_scores(np.array([-1e9, -1.5, -0.5, 0.5, 1e9]), -0.5)
        assert scores == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0], abs=1e-8)
        model = RampSVC("linear", s=-0.5, random_state=0)
        X, y = flipped()
        margins = y * model.fit(X, y).decision_function(X)
        assert model.anomaly_scores_ == pytest.approx(ramp.anomaly_scores(margins, -0.5), abs=1e-9)

    def test_far_outlier_does_not_move_the_boundary(self) -> None:
        X, y = flipped(share=0.0)
        outlier = np.vstack([X, [[40.0, 40.0]]]), np.append(y, -1.0)
        clean = RampSVC("linear", random_state=0).fit(X, y)
        robust = RampSVC("linear", random_state=0).fit(*outlier)
        assert robust.decision_function(X) == pytest.approx(clean.decision_function(X), abs=1e-3)
        plain = SVC(kernel="linear").fit(*outlier)
        shift = np.abs(plain.decision_function(X) - clean.decision_function(X)).max()
        assert shift > 0.1  # the outlier does move a machine without the ramp

    def test_whole_weights_repeat_samples(self) -> None:
        X, y = flipped(60)
        times = np.where(np.arange(len(y)) % 4, 1, 2)
        weighted = RampSVC("linear", n_starts=1).fit(X, y, times)
        repeated = RampSVC("linear", n_starts=1).fit(np.repeat(X, times, 0), np.repeat(y, times))
        assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
        assert weighted.decision_function(X) == pytest.approx(
            repeated.decision_function(X), abs=1e-3
        )

    def test_precomputed_kernel_is_the_same_model(self) -> None:
        X, y = flipped(60)
        direct = RampSVC(gamma=0.1, n_starts=2).fit(X, y)
        gram = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(-1))
        given = RampSVC("precomputed", n_starts=2).fit(gram, y)
        assert given.decision_function(gram) == pytest.approx(direct.decision_function(X), abs=1e-4)

    def test_seed_makes_it_reproducible(self) -> None:
        data = make_ring(40, corruption=0.4, n_test_per_class=0, random_state=5)
        first, second = (RampSVC(random_state=3).fit(data.X, data.y) for _ in range(2))
        assert np.array_equal(first.dual_coef_, second.dual_coef_)

    def test_labels_may_be_words(self) -> None:
        X, y = flipped(60)
        model = RampSVC(random_state=0).fit(X, np.where(y > 0, "walk", "run"))
        assert set(model.predict(X)) == {"walk", "run"}
        assert np.array_equal(model.predict(X) == "walk", model.predict_proba(X)[:, 1] > 0.5)

    def test_warns_when_a_class_is_lost(self) -> None:
        X, y = flipped(60, share=0.0)
        y[y < 0] = np.where(np.arange(30) < 2, -1.0, 1.0)  # two samples against 58 around them
        with pytest.warns(GemmedWarning, match=r"every sample of class .*-1\.0"):
            RampSVC("linear", C=0.01, n_starts=1).fit(X, y)

    @pytest.mark.parametrize(
        "parameter",
        [
            {"C": 0.0},
            {"s": 0.5},
            {"n_starts": 0},
            {"max_iter": 0},
            {"tol": 0.0},
            {"kernel": "cubic"},
        ],
    )
    def test_errors_name_the_parameter(self, parameter: dict) -> None:
        name, value = next(iter(parameter.items()))
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            RampSVC(**parameter).fit(*flipped(20))


WEIGHTS = "as for SVC: the random and k-NN starts and the folds differ between repeats and weights"


@parametrize_with_checks(
    [RampSVC()],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": WEIGHTS},
)
def test_scikit_learn_checks(estimator: object, check: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # some checks train on labels that are pure noise
        check(estimator)  # type: ignore[operator]
