"""The space of many landmarks is that of their features, however it is kept and solved."""

import numpy as np
import pytest

import gemmed.model.decision_step
from gemmed.model.decision_step import (
    MIN_RELATIVE_DECREASE,
    DecisionFunction,
    solve_med,
    solve_med_functions,
)
from gemmed.model.kernels.function_space import FeatureSpace, GramSpace, components_for
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.landmark_space import LandmarkSpace, conjugate_gradients
from gemmed.model.kernels.landmarks import LinearMap, nystroem_map
from gemmed.model.med import learn_med
from gemmed.rows.blocks import LocalBlocks

KERNEL = Kernel("rbf", gamma=0.2, bias_variance=0.7)
CACHES = {"kept": 10**9, "anew": 0}


def rows(n, n_features=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features))


def spaces(n=600, m=60, *, cache=10**9, n_threads=1, block_rows=64):
    X = rows(n)
    made = nystroem_map(KERNEL, X[:m])
    blocks = LocalBlocks(X, block_rows=block_rows, n_threads=n_threads)
    space = LandmarkSpace(blocks, made, kept_bytes=cache)
    return space, FeatureSpace(features(made, X))


def features(made, X):
    return made.solve(made.raw(X).T.astype(np.float64)).T


def signs(n, k=3):
    X = rows(n)
    found = np.column_stack([np.where(X[:, j] + X[:, j + 1] ** 2 > 1, 1.0, -1.0) for j in range(k)])
    found[np.random.default_rng(3).random(found.shape) < 0.1] *= -1
    return found


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
@pytest.mark.parametrize("k", [None, 2, 6])
def test_every_operation_equals_that_of_the_features_held_whole(cache, k):
    space, whole = spaces(cache=cache)
    rng = np.random.default_rng(1)
    columns = () if k is None else (k,)
    w, v = rng.normal(size=(len(whole.zero()), *columns)), rng.normal(size=(600, *columns))
    curvature = np.maximum(rng.normal(size=(600, *columns)), 0.0)

    def each(function, *arguments):
        if k is None:
            return function(*arguments)
        return np.column_stack([function(*(a[:, j] for a in arguments)) for j in range(k)])

    def close(ours, theirs, error):
        np.testing.assert_allclose(ours, theirs, atol=error * np.abs(theirs).max(), rtol=0)

    close(space.values(w), each(whole.values, w), 2e-5)
    close(space.from_coefficients(v), each(whole.from_coefficients, v), 2e-5)
    some = np.array([300, 5, 77])
    close(space.prior_variances(some), whole.prior_variances(some), 2e-5)
    close(space.features(), whole.features(), 2e-5)
    exact = each(lambda own: whole.posterior_variances(own, some), curvature)
    close(space.posterior_variances(curvature, some), exact, 0.02)


def test_a_newton_step_from_a_start_comes_close():
    space, whole = spaces()
    rng = np.random.default_rng(2)
    curvature = np.maximum(rng.normal(size=600), 0.0)
    w = 0.1 * rng.normal(size=len(whole.zero()))
    f, pull = whole.values(w), rng.normal(size=600) * curvature
    exact = whole.newton_target(f, pull, curvature, w)
    matrix = np.eye(len(w)) + (whole.features().T * curvature) @ whole.features()

    def error(parameters):
        gap = parameters - exact
        return np.sqrt(gap @ matrix @ gap)

    assert error(space.newton_target(f, pull, curvature, w)) < 0.2 * error(w)


def test_functions_solved_together_are_those_solved_alone(monkeypatch):
    n = 600
    labels, weights = signs(n), np.ones(n)
    flip_proba = np.random.default_rng(5).uniform(0.0, 0.3, labels.shape)
    options = {"max_iter": 50, "tol": 1e-6}
    monkeypatch.setattr("gemmed.model.decision_step.MIN_RELATIVE_DECREASE", 1e-6)
    space = spaces()[0]
    together = solve_med_functions(space, labels, 3.0, weights, flip_proba=flip_proba, **options)
    for j, own in enumerate(together):
        alone = solve_med(
            spaces()[1], labels[:, j], 3.0, weights, flip_proba=flip_proba[:, j], **options
        )
        assert own.converged
        assert own.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-5)
        np.testing.assert_allclose(own.decision.f, alone.decision.f, atol=0.01)


def test_what_is_left_is_less_than_the_last_step_brought():
    labels, weights = signs(600), np.ones(600)
    rough = solve_med_functions(spaces()[0], labels, 3.0, weights, max_iter=50, tol=1e-6)
    assert all(own.converged for own in rough)
    for j, own in enumerate(rough):
        best = solve_med(spaces()[1], labels[:, j], 3.0, weights, max_iter=50, tol=1e-9)
        left = own.certificate.primal / best.certificate.primal - 1.0
        assert -1e-6 < left < MIN_RELATIVE_DECREASE


def test_a_damped_step_counts_with_what_the_full_one_promised():
    """It may bring little where much is left."""
    labels = signs(600, 1)[:, 0]
    decision = DecisionFunction(spaces()[0], labels, 3.0)
    weights = np.ones(600)
    decision.newton_step(weights)
    assert 0.0 < decision.decrease < np.inf
    loss = decision.loss()
    direction = 1e3 * (spaces()[0].zero() + 1.0)  # far too long, and halved until it is not
    change = spaces()[0].values(direction)
    downhill = -np.sign(
        decision.space.inner(decision.parameters, direction, change)
        - float(weights @ (loss.lam * labels * change))
    )
    before = decision.certify(weights).primal
    assert decision.advance(downhill * direction, downhill * change, weights, 0.0, loss)
    assert decision.decrease > 100.0 * (before - decision.certify(weights).primal) > 0.0


def test_a_fit_goes_on_as_long_as_its_objective_falls(monkeypatch):
    """Regardless of the gap, which may be smallest at a start that is far from the solution."""
    space, _ = spaces(n=400)
    rare = np.full((400, 1), -1.0)
    rare[np.random.default_rng(1).permutation(400)[:4]] = 1.0
    weights, options = np.full(400, 100.0), {"max_iter": 50, "tol": 1e-4}
    (wanted,) = solve_med_functions(space, rare, 3.0, weights, **options)
    start = solve_med_functions(space, rare, 3.0, 3.0 * weights, **options)
    monkeypatch.setattr(gemmed.model.decision_step, "MAX_STALLED", 3)
    (found,) = solve_med_functions(space, rare, 3.0, weights, start=start, **options)
    assert found.converged
    assert found.certificate.primal < (1.0 + 1e-3) * wanted.certificate.primal


def test_steps_that_bring_nothing_come_to_an_end(monkeypatch):
    space, _ = spaces(n=400)
    y = signs(400, 1)
    advance = DecisionFunction.advance

    def crawl(self, direction, change, *others):
        moved = advance(self, 1e-9 * direction, 1e-9 * change, *others)
        self.decrease = np.inf  # a step that promises more than it brings
        return moved

    monkeypatch.setattr(DecisionFunction, "advance", crawl)
    (found,) = solve_med_functions(space, y, 3.0, np.ones(400), max_iter=50, tol=1e-4)
    assert not found.converged
    assert found.n_iter == gemmed.model.decision_step.MAX_STALLED + 1


def test_held_out_margins_are_near_those_without_single_samples():
    """They are those without a fifth of the samples."""
    n = 1000
    labels = signs(n, 1)
    ours = learn_med(spaces(n, 80)[0], labels, np.ones(n), 3.0).held_out
    theirs = learn_med(spaces(n, 80)[1], labels, np.ones(n), 3.0).held_out
    assert np.corrcoef(ours[:, 0], theirs[:, 0])[0, 1] > 0.98
    assert abs(np.mean(ours > 0) - np.mean(theirs > 0)) < 0.01


def test_the_number_of_threads_changes_nothing():
    labels = signs(600)
    found = [
        solve_med_functions(
            spaces(n_threads=n_threads)[0], labels, 3.0, np.ones(600), max_iter=20, tol=1e-6
        )
        for n_threads in (1, 3)
    ]
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one.decision.f, several.decision.f)


def test_objective_is_that_of_the_features_solved_exactly():
    n, m = 3000, 200
    labels, (space, whole) = signs(n, 1)[:, 0], spaces(n, m)
    options = {"max_iter": 50, "tol": 1e-6}
    ours = solve_med(space, labels, 3.0, np.ones(n), **options)
    theirs = solve_med(whole, labels, 3.0, np.ones(n), **options)
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=5e-5)


def test_without_room_for_factors_they_are_made_again(monkeypatch):
    labels, weights = signs(600), np.ones(600)
    options = {"max_iter": 50, "tol": 1e-6}
    usual = solve_med_functions(spaces()[0], labels, 3.0, weights, **options)
    monkeypatch.setattr("gemmed.model.kernels.landmark_space.MAX_FACTOR_BYTES", 0)
    found = solve_med_functions(spaces()[0], labels, 3.0, weights, **options)
    for one, other in zip(found, usual, strict=True):
        assert one.converged
        assert one.certificate.primal == pytest.approx(other.certificate.primal, rel=1e-4)


def test_all_samples_as_landmarks_give_the_kernel_solution():
    X, labels = rows(150), signs(150, 1)[:, 0]
    options = {"max_iter": 50, "tol": 1e-6}
    space = LandmarkSpace(LocalBlocks(X), nystroem_map(KERNEL, X))
    ours = solve_med(space, labels, 3.0, np.ones(150), **options)
    theirs = solve_med(GramSpace(KERNEL.gram(X)), labels, 3.0, np.ones(150), **options)
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1e-4)


def test_the_linear_kernel_in_blocks():
    X, labels = rows(700), signs(700, 1)[:, 0]
    options = {"max_iter": 50, "tol": 1e-6}
    space = LandmarkSpace(LocalBlocks(X, block_rows=100), LinearMap(5))
    ours = solve_med(space, labels, 3.0, np.ones(700), **options)
    whole = FeatureSpace(np.column_stack([X, np.ones(700)]))
    theirs = solve_med(whole, labels, 3.0, np.ones(700), **options)
    np.testing.assert_allclose(ours.decision.f, theirs.decision.f, atol=0.01)


def test_which_samples_keep_the_exact_kernel():
    found = [components_for("auto", n) for n in (2000, 2001, 20_000, 10**5, 10**6)]
    assert found == [None, 500, 707, 1581, 500]
    assert [components_for("auto", n, several=True) for n in (1000, 1001)] == [None, 500]
    assert [components_for("auto", n, alone=True) for n in (20_000, 10**6)] == [2828, 500]
    beside = [components_for("auto", n, beside=True) for n in (5000, 10**5, 10**6)]
    assert beside == [500, 1000, 500]
    assert components_for(50, 100) == 50
    assert components_for(800, 10**5, beside=True) == 800
    assert components_for(None, 10**6) is None


# Conjugate gradients, against a direct solution.


def system(n=40, k=2):
    rng = np.random.default_rng(0)
    half = rng.normal(size=(n, n))
    return half @ half.T / n + np.eye(n), rng.normal(size=(n, k))


def test_systems_are_solved_by_products():
    matrix, right = system()
    found = conjugate_gradients(
        lambda p, which: matrix @ p, lambda r, which: r.copy(), right, np.full(2, 1e-12), 120
    )
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-10)


def test_an_exact_preconditioner_takes_one_product():
    matrix, right = system()
    products = []

    def product(p, which):
        products.append(which.tolist())
        return matrix @ p

    found = conjugate_gradients(
        product, lambda r, which: np.linalg.solve(matrix, r), right, np.full(2, 1e-9), 120
    )
    assert products == [[0, 1]]
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), atol=1e-9)


def test_a_system_that_is_solved_takes_no_more_products():
    matrix, right = system()
    right[:, 1] = 0.0
    seen = []

    def product(p, which):
        seen.append(which.tolist())
        return matrix @ p

    found = conjugate_gradients(
        product, lambda r, which: r.copy(), right, np.array([1e-3, 1e-3]), 120
    )
    assert set(map(tuple, seen)) == {(0,)}
    np.testing.assert_array_equal(found[:, 1], 0.0)


def test_the_number_of_products_is_limited():
    matrix, right = system()
    found = conjugate_gradients(
        lambda p, which: matrix @ p, lambda r, which: r.copy(), right, np.full(2, 1e-12), 2
    )
    exact = np.linalg.solve(matrix, right)
    error, start = found - exact, exact
    assert 0.0 < np.sum(error * (matrix @ error)) < np.sum(start * (matrix @ start))
