"""ROD: the low-rank solver against closed forms, finite differences and a cone solver."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize

from gemmed.datasets import make_ring
from gemmed.paper.baselines.rod_solver import (
    RodSolution,
    curvature_model,
    feasible_point,
    lower_bound,
    mix,
    penalised_value,
    raise_total,
    reduce_gram,
    sample_terms,
    solve_low_rank,
    split_scores,
)
from rod_cone import solve_cone

pytestmark = pytest.mark.filterwarnings("error")


def ring_gram(n: int, radius: float, seed: int = 0) -> np.ndarray:
    data = make_ring(n // 2, radius=radius, n_test_per_class=0, random_state=seed)
    return np.outer(data.y, data.y) * (data.X @ data.X.T + 1.0)


def rbf_gram(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.standard_normal((n, 3)) + y[:, None]
    y[: n // 5] = rng.choice([-1.0, 1.0], n // 5)
    squares = (X * X).sum(axis=1)
    return np.outer(y, y) * np.exp(-0.3 * (squares[:, None] + squares - 2.0 * X @ X.T))


def moment_matrix(solution: RodSolution) -> np.ndarray:
    M = solution.factor @ solution.factor.T
    np.fill_diagonal(M, solution.eta)
    return M


def inner_maximum(G: np.ndarray, C: float, eta: np.ndarray, M: np.ndarray) -> tuple[float, float]:
    """Bounds on the inner maximum of ROD at (eta, M), by a method the library does not use."""
    H = C * G * M
    result = optimize.minimize(
        lambda a: (0.5 * a @ H @ a - eta @ a, H @ a - eta),
        np.full(eta.size, 0.1),
        jac=True,
        bounds=[(0.0, 1.0)] * eta.size,
        method="L-BFGS-B",
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-10},
    )
    gradient = eta - H @ result.x
    slack = np.maximum(gradient, 0) @ (1 - result.x) + np.maximum(-gradient, 0) @ result.x
    return -result.fun, -result.fun + slack


PROBLEMS = [
    pytest.param(ring_gram(20, 15.0), 1.0, 0.98, id="ring15-98"),
    pytest.param(ring_gram(20, 15.0), 1.0, 0.40, id="ring15-40"),
    pytest.param(ring_gram(20, 55.0), 1.0, 0.80, id="ring55-80"),
    pytest.param(rbf_gram(20), 2.0, 0.90, id="rbf-90"),
    pytest.param(rbf_gram(24, 1), 10.0, 0.70, id="rbf-70"),
]


class TestClosedForm:
    """phi(q) = max_alpha (alpha q0 - tau - |alpha q - tau e0|) / 2 = min_v [v.q]_+ - tau v.e0."""

    q0 = np.array([-0.7, 0.2, 0.9, 1.5, 3.0, 0.4, 2.0])
    t = np.array([0.5, 0.8, 0.3, 1.0, 0.2, 2.0, 0.01])

    @pytest.mark.parametrize("tau", [0.05, 0.6, 2.0])
    def test_alpha_maximises(self, tau: float) -> None:
        terms = sample_terms(self.q0, self.t**2, tau)
        value = 0.5 * (terms.alpha * self.q0 - tau - terms.distance)
        grid = np.linspace(0.0, 1.0, 20001)[:, None]
        on_grid = 0.5 * (grid * self.q0 - tau - np.hypot(grid * self.q0 - tau, grid * self.t))
        assert np.all(value >= on_grid.max(axis=0) - 1e-15)
        assert np.allclose(value, on_grid.max(axis=0), atol=1e-7)

    @pytest.mark.parametrize("tau", [0.05, 0.6, 2.0])
    def test_equals_the_minimum_over_the_sphere(self, tau: float) -> None:
        terms = sample_terms(self.q0, self.t**2, tau)
        value = 0.5 * (terms.alpha * self.q0 - tau - terms.distance)
        angle = np.linspace(0.0, 2.0 * np.pi, 200001)[:, None]
        eta, along = 0.5 * (1.0 + np.cos(angle)), 0.5 * np.sin(angle)
        on_sphere = np.maximum(eta * self.q0 + along * self.t, 0.0) - tau * eta
        assert np.allclose(value, on_sphere.min(axis=0), atol=1e-4)

    def test_gradient_against_finite_differences_in_every_regime(self) -> None:
        problem = reduce_gram(ring_gram(20, 15.0) / 50.0, 1.0, 0.8)
        rng = np.random.default_rng(0)
        W, step = rng.standard_normal((2, 3, 4))
        q0, t2 = split_scores(problem.Z @ W)
        alpha = sample_terms(q0, t2 + 1e-4, 0.5).alpha
        assert (alpha == 0).any() and (alpha == 1).any() and ((alpha > 0) & (alpha < 1)).any()
        _, gradient = penalised_value(problem, W, 0.5, 1e-2)
        ahead, _ = penalised_value(problem, W + 1e-6 * step, 0.5, 1e-2)
        behind, _ = penalised_value(problem, W - 1e-6 * step, 0.5, 1e-2)
        assert np.sum(gradient * step) == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)

    def test_metric_is_positive_definite(self) -> None:
        problem = reduce_gram(ring_gram(20, 55.0), 1.0, 0.8)
        W = np.random.default_rng(1).standard_normal((3, 4))
        assert np.linalg.eigvalsh(curvature_model(problem, W, 0.3, 1e-3))[0] >= 1.0


class TestAgainstTheConeSolver:
    @pytest.mark.parametrize(("G", "C", "share"), PROBLEMS)
    def test_same_value_eta_and_alpha(self, G: np.ndarray, C: float, share: float) -> None:
        pytest.importorskip("cvxpy")
        cone, optimum = solve_cone(G, C, share, solver="CLARABEL", eps=1e-8)
        fast = solve_low_rank(G, C, share, tol=1e-6)
        assert cone.converged and fast.converged
        assert fast.objective == pytest.approx(optimum, rel=1e-4)
        assert fast.lower_bound <= optimum * (1.0 + 1e-5)
        assert np.abs(fast.eta - cone.eta).max() < 1e-2
        assert np.abs(fast.alpha - cone.alpha).max() < 1e-2
        assert cone.lower_bound <= optimum * (1.0 + 1e-5)
        assert cone.objective >= fast.lower_bound

    def test_scs_agrees_too(self) -> None:
        pytest.importorskip("cvxpy")
        G = ring_gram(20, 15.0)
        cone, optimum = solve_cone(G, 1.0, 0.8, solver="SCS", eps=1e-6)
        fast = solve_low_rank(G, 1.0, 0.8, tol=1e-5)
        assert fast.objective == pytest.approx(optimum, rel=1e-3)
        assert np.abs(fast.eta - cone.eta).max() < 1e-2


class TestCertificate:
    @pytest.mark.parametrize(("G", "C", "share"), PROBLEMS)
    def test_lower_bound_holds_for_any_weights(self, G: np.ndarray, C: float, share: float) -> None:
        optimum = solve_low_rank(G, C, share, tol=1e-6).objective
        problem = reduce_gram(G, C, share)
        rng = np.random.default_rng(0)
        for _ in range(60):
            size = 10.0 ** rng.uniform(-2.0, 0.0) / np.sqrt(problem.spectrum)[:, None]
            W = size * rng.standard_normal((problem.spectrum.size, 3))
            tau = 10.0 ** rng.uniform(-4.0, 1.0)
            upper = raise_total(problem, W, tau)
            assert upper.total >= problem.need
            assert upper.value >= optimum * (1.0 - 2e-6)
            bound = lower_bound(problem, W, tau, 10.0 ** rng.uniform(-6, 0), upper.value)
            assert bound.value <= optimum

    @pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
    def test_bounds_hold_when_stopped_early(self, max_iter: int) -> None:
        G = rbf_gram(30)
        optimum = solve_low_rank(G, 5.0, 0.9, tol=1e-6)
        rough = solve_low_rank(G, 5.0, 0.9, tol=1e-6, max_iter=max_iter)
        assert rough.lower_bound <= optimum.objective
        assert rough.objective >= optimum.lower_bound
        assert rough.duality_gap == rough.objective - rough.lower_bound
        assert not rough.converged

    @pytest.mark.parametrize(("G", "C", "share"), PROBLEMS)
    def test_eta_and_M_are_feasible_and_worth_the_objective(
        self, G: np.ndarray, C: float, share: float
    ) -> None:
        solution = solve_low_rank(G, C, share, tol=1e-3)
        eta, M = solution.eta, moment_matrix(solution)
        assert eta.min() >= 0.0 and eta.max() <= 1.0
        assert eta.sum() >= share * eta.size - 1e-9
        # The factor alone must not exceed the diagonal it is completed to.
        assert np.all((solution.factor**2).sum(axis=1) <= eta + 1e-12)
        X = np.block([[np.ones((1, 1)), eta[None]], [eta[:, None], M]])
        assert np.linalg.eigvalsh(X)[0] >= -1e-10
        low, high = inner_maximum(G, C, eta, M)
        assert low <= solution.objective * (1.0 + 1e-9)
        assert high >= solution.lower_bound

    def test_alpha_maximises_at_the_solution(self) -> None:
        G = rbf_gram(40)
        solution = solve_low_rank(G, 2.0, 0.85, tol=1e-7)
        H = 2.0 * G * moment_matrix(solution)
        value = solution.eta @ solution.alpha - 0.5 * solution.alpha @ H @ solution.alpha
        assert value == pytest.approx(solution.objective, rel=1e-3)
        gradient = solution.eta - H @ solution.alpha
        move = np.clip(solution.alpha + gradient, 0.0, 1.0) - solution.alpha
        assert np.abs(move).max() < 1e-2

    def test_mixing_meets_the_sum_without_exceeding_the_mean_value(self) -> None:
        G = ring_gram(20, 15.0)
        problem = reduce_gram(G, 1.0, 0.8)
        W = np.random.default_rng(0).standard_normal((3, 4)) * 0.1
        below, above = feasible_point(problem, W, 1e-3), raise_total(problem, W, 1e-3)
        assert below.total < problem.need
        mixed = mix(below, above, problem.need)
        M = mixed.factor @ mixed.factor.T
        np.fill_diagonal(M, mixed.eta)
        assert mixed.total == pytest.approx(problem.need)
        assert inner_maximum(G, 1.0, mixed.eta, M)[0] <= mixed.value * (1.0 + 1e-9)


class TestGapAndSpeed:
    @pytest.mark.parametrize("radius", [15.0, 55.0, 75.0])
    @pytest.mark.parametrize("share", [0.98, 0.80, 0.40])
    def test_ring_of_the_paper(self, radius: float, share: float) -> None:
        solution = solve_low_rank(ring_gram(200, radius), 1.0, share, tol=1e-3)
        assert solution.converged
        assert solution.duality_gap <= 1e-3 * solution.objective

    def test_rbf_kernel(self) -> None:
        solution = solve_low_rank(rbf_gram(300), 1.0, 0.8, tol=1e-2)
        assert solution.converged


class TestInvariants:
    @pytest.mark.parametrize("G", [rbf_gram(40), ring_gram(40, 15.0) / 100.0], ids=["rbf", "ring"])
    def test_no_ablation_is_the_plain_svm(self, G: np.ndarray) -> None:
        low, high = inner_maximum(G, 3.0, np.ones(40), np.ones((40, 40)))
        solution = solve_low_rank(G, 3.0, 1.0, tol=1e-6)
        assert solution.converged and high - low < 1e-4 * low
        assert solution.lower_bound <= high and solution.objective >= low
        assert solution.objective == pytest.approx(low, rel=2e-6)
        assert np.all(solution.eta == 1.0)

    def test_tends_to_the_plain_svm(self) -> None:
        G = rbf_gram(40)
        svm = solve_low_rank(G, 3.0, 1.0).objective
        near = solve_low_rank(G, 3.0, 1.0 - 1e-7, tol=1e-2)
        assert near.lower_bound <= svm
        assert near.objective == pytest.approx(svm, rel=2e-2)

    def test_value_rises_with_the_share(self) -> None:
        G = ring_gram(40, 15.0)
        solutions = [solve_low_rank(G, 1.0, share) for share in (0.2, 0.5, 0.8, 0.95, 1.0)]
        for smaller, larger in pairwise(solutions):
            assert smaller.objective < larger.lower_bound

    def test_scaling_the_kernel_is_scaling_C(self) -> None:
        G = rbf_gram(40)
        one = solve_low_rank(G, 4.0, 0.9, tol=1e-5)
        other = solve_low_rank(100.0 * G, 0.04, 0.9, tol=1e-5)
        assert one.objective == pytest.approx(other.objective, rel=2e-5)
        assert np.abs(one.eta - other.eta).max() < 1e-2

    def test_order_of_samples_does_not_matter(self) -> None:
        G = ring_gram(40, 55.0)
        order = np.random.default_rng(0).permutation(40)
        one = solve_low_rank(G, 1.0, 0.8, tol=1e-6)
        other = solve_low_rank(G[np.ix_(order, order)], 1.0, 0.8, tol=1e-6)
        assert one.objective == pytest.approx(other.objective, rel=2e-6)
        assert np.abs(one.eta[order] - other.eta).max() < 1e-2

    def test_duplicated_samples_double_the_value_at_half_the_C(self) -> None:
        G = ring_gram(20, 15.0)
        one = solve_low_rank(G, 1.0, 0.8, tol=1e-5)
        twice = solve_low_rank(np.kron(np.ones((2, 2)), G), 0.5, 0.8, tol=1e-5)
        assert twice.objective == pytest.approx(2.0 * one.objective, rel=2e-5)

    def test_same_seed_same_result(self) -> None:
        G = ring_gram(40, 15.0)
        one, other = (solve_low_rank(G, 1.0, 0.9, random_state=3) for _ in range(2))
        assert np.array_equal(one.eta, other.eta) and one.lower_bound == other.lower_bound


class TestEdges:
    @pytest.mark.parametrize("n", [2, 3, 4, 5])
    @pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
    def test_few_samples(self, n: int, share: float) -> None:
        X = np.random.default_rng(n).standard_normal((n, 2))
        y = np.where(np.arange(n) % 2, 1.0, -1.0)
        assert solve_low_rank(np.outer(y, y) * (X @ X.T + 1.0), 1.0, share).converged

    def test_one_sample_of_a_class(self) -> None:
        y = np.where(np.arange(25) == 0, -1.0, 1.0)
        X = np.random.default_rng(0).standard_normal((25, 2))
        assert solve_low_rank(np.outer(y, y) * (X @ X.T + 1.0), 1.0, 0.8).converged

    @pytest.mark.parametrize("share", [0.7, 0.9, 0.99])
    def test_zero_rows(self, share: float) -> None:
        G = ring_gram(20, 15.0)
        G[:5] = 0.0
        G[:, :5] = 0.0
        solution = solve_low_rank(G, 1.0, share)
        assert solution.converged
        # A sample that no function can move costs its whole eta.
        assert solution.objective >= solution.eta[:5].sum() * (1.0 - 1e-9)

    def test_zero_kernel_costs_the_share(self) -> None:
        solution = solve_low_rank(np.zeros((6, 6)), 1.0, 0.9)
        assert solution.objective == solution.lower_bound == pytest.approx(5.4)

    @pytest.mark.parametrize("C", [10.0, 100.0])
    def test_identity_kernel_has_a_closed_form(self, C: float) -> None:
        solution = solve_low_rank(np.eye(30), C, 0.5, tol=1e-2)
        assert solution.lower_bound <= 15.0 / (2.0 * C) * (1.0 + 1e-9)
        assert solution.objective == pytest.approx(15.0 / (2.0 * C), rel=1e-2)
