"""MEDDetector: the dual against closed forms, integrals and finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from gemmed._core.exceptions import DegenerateDataError, GemmedError
from gemmed.paper.baselines.med_detector import (
    MEDDetector,
    med_dual,
    robust_scale,
)
from gemmed.paper.generative.gaussian import Gaussian, standard_prior

pytestmark = pytest.mark.filterwarnings("error")

RNG_DATA = np.random.default_rng(0).normal(size=(30, 3)) @ np.array(
    [[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 2.0]]
)


def prior_of(d: int) -> Gaussian:
    return standard_prior(d, 1.5)


class TestDual:
    @pytest.mark.parametrize("where", ["inside", "zero", "one"])
    def test_gradient_against_finite_differences(self, where: str) -> None:
        lam = {
            "inside": np.random.default_rng(1).uniform(0.2, 0.8, 30),
            "zero": np.zeros(30),
            "one": np.ones(30),
        }[where]
        _, gradient = med_dual(RNG_DATA, lam, prior_of(3), -4.0)
        h = 1e-5
        for n in range(30):
            step = h * (np.arange(30) == n)
            up = med_dual(RNG_DATA, lam + step, prior_of(3), -4.0)[0]
            down = med_dual(RNG_DATA, lam - step, prior_of(3), -4.0)[0]
            assert gradient[n] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-7)

    def test_zero_is_the_prior(self) -> None:
        value, _ = med_dual(RNG_DATA, np.zeros(30), prior_of(3), -4.0)
        assert value == pytest.approx(0.0, abs=1e-12)

    def test_one_is_the_evidence(self) -> None:
        """log Z(1) is the log marginal likelihood: a chain of Student t predictive densities."""
        prior = prior_of(3)
        evidence, state = 0.0, prior
        for x in RNG_DATA:
            free = state.degrees - 3 + 1.0
            shape = state.scatter[0] * (state.count + 1.0) / (state.count * free)
            evidence += stats.multivariate_t.logpdf(x, state.mean, shape, df=free)
            state = state.updated(x[None], np.ones(1))
        value, _ = med_dual(RNG_DATA, np.ones(30), prior, -4.0)
        assert -4.0 * 30 - value == pytest.approx(evidence, rel=1e-10)

    def test_expected_log_likelihood_against_an_integral(self) -> None:
        """One dimension: integrate over the precision by quadrature."""
        x = np.array([[-1.0], [0.3], [2.0]])
        posterior = standard_prior(1, 2.0).updated(x, np.array([0.3, 1.0, 0.7]))
        mean, scatter = posterior.mean[0], posterior.scatter[0, 0, 0]
        precision = stats.gamma(0.5 * posterior.degrees, scale=2.0 / scatter)
        for value in (-2.0, 0.5):

            def term(t: float, value: float = value) -> float:
                inner = 0.5 * np.log(t / (2 * np.pi))
                inner -= 0.5 * (t * (value - mean) ** 2 + 1.0 / posterior.count)
                return inner * precision.pdf(t)

            end = precision.ppf(1 - 1e-14)
            expected = integrate.quad(term, 0.0, end, epsabs=1e-10, limit=200)[0]
            got = posterior.expected_log_likelihood(np.array([[value]]))[0]
            assert got == pytest.approx(expected, abs=1e-7)

    def test_updates_add_up(self) -> None:
        lam = np.random.default_rng(1).uniform(size=30)
        at_once = prior_of(3).updated(RNG_DATA, lam)
        in_turn = prior_of(3).updated(RNG_DATA[:10], lam[:10]).updated(RNG_DATA[10:], lam[10:])
        assert in_turn.mean == pytest.approx(at_once.mean)
        assert in_turn.scatter == pytest.approx(at_once.scatter)
        assert in_turn.log_normaliser() == pytest.approx(at_once.log_normaliser())

    def test_concave(self) -> None:
        rng = np.random.default_rng(2)
        for _ in range(20):
            a, b = rng.uniform(size=(2, 30))
            values = [med_dual(RNG_DATA, v, prior_of(3), -4.0)[0] for v in (a, 0.5 * (a + b), b)]
            assert values[1] >= 0.5 * (values[0] + values[2]) - 1e-9

    def test_normaliser_in_one_dimension(self) -> None:
        one = Gaussian.of(np.zeros((1, 1)), 2.0, 5.0, np.array([[[3.0]]]))
        known = special.gammaln(2.5) + 2.5 * np.log(2.0 / 3.0) + 0.5 * np.log(np.pi)
        assert one.log_normaliser() == pytest.approx(known)


class TestFit:
    def test_optimality_conditions(self) -> None:
        X = np.random.default_rng(0).normal(size=(150, 3))
        model = MEDDetector().fit(X)
        scores, lam = model.score_samples(X), model.multipliers_
        assert model.converged_ and model.duality_gap_ < 1e-5
        assert np.all(scores[lam < 1e-6] >= model.level_ - 1e-4)
        assert np.all(scores[lam > 1.0 - 1e-6] <= model.level_ + 1e-4)
        inside = (lam > 1e-3) & (lam < 1.0 - 1e-3)
        assert inside.any() and scores[inside] == pytest.approx(model.level_, abs=1e-3)

    def test_dual_against_another_solver(self) -> None:
        centre, scale = robust_scale(RNG_DATA)
        Z = (RNG_DATA - centre) / scale
        model = MEDDetector(level=-5.0).fit(RNG_DATA)
        level = -5.0 + np.log(scale).sum()

        def cost(lam: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = med_dual(Z, lam, standard_prior(3, 1.0), level)
            return -value, -gradient

        other = optimize.minimize(
            cost,
            np.full(30, 0.1),
            jac=True,
            method="trust-constr",
            bounds=[(0, 1)] * 30,
            options={"gtol": 1e-8, "xtol": 1e-12, "maxiter": 2000},
        )
        assert model.dual_value_ == pytest.approx(-other.fun, abs=1e-4)
        assert model.dual_value_ >= -other.fun - 1e-6

    def test_extreme_levels_are_posterior_and_prior(self) -> None:
        X = np.random.default_rng(0).normal(size=(60, 2)) + [3.0, -1.0]
        high, low = MEDDetector(level=1e3).fit(X), MEDDetector(level=-1e6).fit(X)
        assert np.all(high.multipliers_ == 1) and np.all(low.multipliers_ == 0)
        assert low.location_ == pytest.approx(np.median(X, axis=0))
        median = np.median(X, axis=0)
        assert high.location_ == pytest.approx((X.sum(axis=0) + median) / 61)

    def test_shift_and_scale_change_scores_by_the_jacobian_only(self) -> None:
        X = np.random.default_rng(0).normal(size=(80, 3))
        factors = np.array([1e-3, 1.0, 1e4])
        plain, moved = MEDDetector().fit(X), MEDDetector().fit(X * factors + 7.0)
        jacobian = np.log(factors).sum()
        assert moved.score_samples(X * factors + 7.0) + jacobian == pytest.approx(
            plain.score_samples(X), abs=1e-3
        )
        assert np.array_equal(moved.predict(X * factors + 7.0), plain.predict(X))

    def test_order_of_the_samples_does_not_matter_to_the_model(self) -> None:
        X = np.random.default_rng(0).normal(size=(80, 3))
        reordered = MEDDetector().fit(X[::-1])
        assert reordered.score_samples(X) == pytest.approx(
            MEDDetector().fit(X).score_samples(X), abs=1e-3
        )

    @pytest.mark.parametrize("seed", range(3))
    def test_everything_follows_the_order_of_the_samples_to_the_bit(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(63, 4))
        X[rng.integers(63, size=20)] = X[rng.integers(63, size=20)]
        order = rng.permutation(63)
        plain, moved = MEDDetector().fit(X), MEDDetector().fit(X[order])
        assert np.array_equal(moved.training_scores_, plain.training_scores_[order])
        assert np.array_equal(moved.score_samples(X), plain.score_samples(X))
        assert moved.offset_ == plain.offset_

    def test_samples_that_are_all_the_same_are_refused(self) -> None:
        with pytest.raises(DegenerateDataError, match="all 40 samples are identical"):
            MEDDetector().fit(np.ones((40, 3)))

    @pytest.mark.parametrize(
        "X",
        [
            np.random.default_rng(0).normal(size=(5, 40)),
            np.column_stack([np.random.default_rng(0).normal(size=20), np.full(20, 0.1)]),
            np.repeat(np.arange(3.0), 10)[:, None],
            np.array([[0.0, 1.0], [1.0, 5.0]]),
            np.append(np.zeros(30), 9.0)[:, None],
        ],
        ids=["N < d", "constant column", "duplicates", "two samples", "spike"],
    )
    def test_degenerate_data(self, X: np.ndarray) -> None:
        try:
            model = MEDDetector().fit(X)
        except GemmedError:
            pytest.fail("the prior should make this data usable")
        assert np.all(np.isfinite(model.score_samples(X)))
        assert np.all(np.isfinite(model.training_scores_))
        far = model.score_samples(X[:1] + 1e3)
        assert far[0] < model.score_samples(X).min()

    def test_a_fresh_start_follows_a_false_convergence(self) -> None:
        """L-BFGS-B alone stops this one at a gap of 0.1."""
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1], [50, 20])
        order = rng.permutation(70)
        X = (rng.normal(size=(70, 2)) + np.array([[0.0, 0.0], [8.0, 0.0]])[y])[order]
        assert MEDDetector().fit(X[y[order] == 1]).converged_

    def test_stopping_early_warns(self) -> None:
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            MEDDetector(max_iter=1).fit(RNG_DATA)


class TestDetection:
    @pytest.mark.slow
    @pytest.mark.parametrize(("n", "d"), [(60, 20), (200, 4), (40, 60)])
    def test_false_alarms_keep_their_rate(self, n: int, d: int) -> None:
        """Mean over training sets; the standard error of that mean is below 0.02."""
        rates = []
        for seed in range(12):
            rng = np.random.default_rng(seed)
            model = MEDDetector(0.1).fit(rng.normal(size=(n, d)))
            rates.append(np.mean(model.predict(rng.normal(size=(300, d))) == -1))
        assert 0.005 < np.mean(rates) < 0.14

    def test_scores_of_fitted_samples_would_not(self) -> None:
        """What training_scores_ guards against: calibration on the samples that were fitted."""
        rng = np.random.default_rng(0)
        X, new = rng.normal(size=(60, 20)), rng.normal(size=(300, 20))
        model = MEDDetector(0.1).fit(X)
        naive = np.mean(model.score_samples(new) < np.quantile(model.score_samples(X), 0.1))
        assert naive > 0.4

    def test_p_values_follow_their_definition(self) -> None:
        rng = np.random.default_rng(0)
        X, new = rng.normal(size=(50, 2)), 2.0 * rng.normal(size=(100, 2))
        model = MEDDetector(0.1).fit(X)
        below = (model.training_scores_ <= model.score_samples(new)[:, None]).sum(axis=1)
        p = model.p_values(new)
        assert p == pytest.approx((1 + below) / 51)
        assert np.array_equal(p <= 0.1, model.predict(new) == -1)
        assert model.decision_function(new) == pytest.approx(
            model.score_samples(new) - model.offset_
        )

    def test_too_few_samples_raise_no_alarm(self) -> None:
        model = MEDDetector(0.05).fit(np.arange(5.0)[:, None])
        assert model.offset_ == -np.inf
        assert model.predict([[1e6]]).tolist() == [1]

    def test_finds_far_samples_despite_contamination(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3))
        X[:30] *= 8.0
        scores = MEDDetector().fit(X).training_scores_
        far = np.linalg.norm(X[:30], axis=1) > 6.0
        assert far.sum() > 20
        assert scores[:30][far].max() < np.quantile(scores[30:], 0.05)


@pytest.mark.parametrize(
    "parameter",
    [
        {"false_alarm_rate": 0.0},
        {"false_alarm_rate": 1.0},
        {"level": "high"},
        {"prior_strength": 0.0},
        {"max_iter": 0},
        {"tol": -1.0},
    ],
)
def test_errors_name_the_parameter(parameter: dict) -> None:
    name, value = next(iter(parameter.items()))
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        MEDDetector(**parameter).fit(RNG_DATA)


@parametrize_with_checks([MEDDetector()])
def test_scikit_learn_checks(estimator: object, check: object) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        check(estimator)  # type: ignore[operator]
