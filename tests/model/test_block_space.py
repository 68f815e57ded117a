"""The block-wise function space is the same space as the one held whole."""

import numpy as np
import pytest

from gemmed.model.kernels.block_space import BlockFeatureSpace
from gemmed.model.kernels.feature_passes import FeaturePasses, PackedFeatures
from gemmed.model.kernels.function_space import FeatureSpace, GramSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.nystroem import LinearMap, choose_landmarks, nystroem_map
from gemmed.paper import MeanField
from gemmed.paper.dual import DualProblem
from gemmed.rows.blocks import LocalBlocks
from problems import central_difference

KERNEL = Kernel("rbf", gamma=0.2)
CACHES = {"kept": 10**9, "part": 40_000, "anew": 0}


def rows(n, n_features=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n_features))


def spaces(n=400, m=50, *, cache=10**9, dtype=np.float64, block_rows=64):
    X = rows(n)
    made = nystroem_map(KERNEL, X[:m], dtype=dtype)
    block = BlockFeatureSpace(LocalBlocks(X, block_rows=block_rows), made, cache_bytes=cache)
    return block, FeatureSpace(made.features(X).astype(np.float64))


def problem(space, n, seed=0):
    rng = np.random.default_rng(seed)
    X = rows(n)
    labels = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0)
    labels[rng.random(n) < 0.1] *= -1
    d = rng.gamma(20.0, 0.05, n)
    return DualProblem(
        space, labels, d, np.full(n, 3.0), 3.0, np.full(2, 0.5), np.full(2, 0.7 * d.mean())
    )


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-9), (np.float32, 2e-5)])
def test_every_operation_equals_that_of_the_features_held_whole(cache, dtype, error):
    block, whole = spaces(cache=cache, dtype=dtype)
    rng = np.random.default_rng(1)
    w, v = rng.normal(size=len(whole.zero())), rng.normal(size=400)
    curvature = np.maximum(rng.normal(size=400), 0.0)
    some = np.array([300, 5, 77])
    assert block.n_samples == 400
    results = [
        (
            space.variances,
            space.values(w),
            space.from_coefficients(v),
            space.newton_target(v, v * curvature, curvature),
            space.posterior_variances(curvature, some),
            space.features(),
        )
        for space in (block, whole)
    ]
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=error * np.abs(theirs).max())
    assert block.inner(w, w, whole.values(w)) == pytest.approx(w @ w)


@pytest.mark.parametrize("cache", [10**9, 0], ids=["kept", "anew"])
def test_posterior_variances_of_a_large_sample_are_exact(cache):
    block, whole = spaces(n=20_000, m=100, cache=cache, block_rows=4096, dtype=np.float32)
    curvature = np.random.default_rng(0).uniform(0, 2, 20_000)
    few = np.arange(0, 20_000, 40)
    exact = whole.posterior_variances(curvature, few)
    np.testing.assert_allclose(block.posterior_variances(curvature, few), exact, rtol=1e-4)


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
def test_newton_target_zeroes_the_gradient(cache):
    """By finite differences of |w|^2 / 2 - pull.(Phi w - f) + curvature (Phi w - f)^2 / 2."""
    block, whole = spaces(n=120, m=8, cache=cache // 100, block_rows=16)
    rng = np.random.default_rng(2)
    f, pull, curvature = rng.normal(size=120), rng.normal(size=120), rng.uniform(0, 1, 120)

    def objective(w):
        change = whole.values(w) - f
        return 0.5 * w @ w - pull @ change + 0.5 * curvature @ change**2

    target = block.newton_target(f, pull, curvature)
    np.testing.assert_allclose(central_difference(objective, target), 0.0, atol=1e-6)


@pytest.mark.parametrize("cache", CACHES.values(), ids=CACHES)
def test_mean_field_solution_is_that_of_the_features_held_whole(cache):
    block, whole = spaces(n=600, m=40, cache=cache)
    ours = MeanField("collapsed", n_restarts=0).solve(problem(block, 600), tol=1e-10)
    theirs = MeanField("collapsed", n_restarts=0).solve(problem(whole, 600), tol=1e-10)
    assert ours.converged and theirs.converged
    assert ours.dual_value == pytest.approx(theirs.dual_value, rel=1e-8)
    np.testing.assert_allclose(ours.nominal, theirs.nominal, atol=1e-5)
    np.testing.assert_allclose(ours.multipliers.lam, theirs.multipliers.lam, atol=1e-4)


def test_single_precision_reaches_the_default_tolerance():
    block, whole = spaces(n=2000, m=150, dtype=np.float32)
    ours = MeanField("collapsed", n_restarts=0).solve(problem(block, 2000))
    theirs = MeanField("collapsed", n_restarts=0).solve(problem(whole, 2000))
    assert ours.converged
    assert ours.dual_value == pytest.approx(theirs.dual_value, rel=1e-5)
    np.testing.assert_allclose(ours.nominal, theirs.nominal, atol=5e-3)
    assert np.all(np.diff(ours.history) <= 1e-6 * np.abs(ours.history[:-1]))


def test_all_samples_as_landmarks_give_the_kernel_solution():
    X = rows(150)
    made = nystroem_map(KERNEL, X, dtype=np.float64)
    block = BlockFeatureSpace(LocalBlocks(X), made)
    whole = GramSpace(KERNEL.between(X, X))
    ours, theirs = (
        MeanField("collapsed", n_restarts=0).solve(problem(s, 150), tol=1e-10)
        for s in (block, whole)
    )
    assert ours.dual_value == pytest.approx(theirs.dual_value, rel=1e-6)
    np.testing.assert_allclose(ours.nominal, theirs.nominal, atol=1e-4)


def test_several_functions_may_share_a_space():
    """Newton steps in turn, as one-vs-rest classification makes them, find each function."""
    block, whole = spaces(n=500, m=30)
    rng = np.random.default_rng(3)
    fs = [np.zeros(500), np.zeros(500), np.zeros(500)]
    targets = [rng.normal(size=500) for _ in fs]
    curvature = [rng.uniform(0, 2, 500) for _ in fs]
    for _ in range(12):
        for i, f in enumerate(fs):
            parameters = block.newton_target(f, curvature[i] * (targets[i] - f), curvature[i])
            fs[i] = block.values(parameters)
    for i, f in enumerate(fs):
        best = whole.newton_target(np.zeros(500), curvature[i] * targets[i], curvature[i])
        np.testing.assert_allclose(f, whole.values(best), atol=1e-7)


def test_linear_kernel_in_blocks():
    X = rows(700)
    block = BlockFeatureSpace(LocalBlocks(X, block_rows=100), LinearMap(5, dtype=np.float64))
    whole = FeatureSpace(np.column_stack([X, np.ones(700)]))
    ours, theirs = (
        MeanField("collapsed", n_restarts=0).solve(problem(s, 700), tol=1e-10)
        for s in (block, whole)
    )
    np.testing.assert_allclose(ours.nominal, theirs.nominal, atol=1e-6)


def test_threads_give_the_same_solution():
    X = rows(800)
    made = nystroem_map(KERNEL, X[:60])
    one, two = (
        MeanField("collapsed", n_restarts=0).solve(
            problem(BlockFeatureSpace(LocalBlocks(X, n_threads=n, block_rows=128), made), 800)
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one.nominal, two.nominal)


def test_function_from_landmarks_classifies():
    X = rows(3000)
    truth = np.where(X[:, 0] + X[:, 1] ** 2 > 1, 1.0, -1.0)
    blocks = LocalBlocks(X)
    chosen = choose_landmarks(truth, 150, np.random.default_rng(0))
    made = nystroem_map(KERNEL, X[chosen])
    space = BlockFeatureSpace(blocks, made)
    flawed = problem(space, 3000)
    solution = MeanField("collapsed", n_restarts=0).solve(flawed)
    w = space.from_coefficients(solution.multipliers.lam * solution.nominal * flawed.labels)
    fresh = rows(2000, seed=9)
    correct = made.features(fresh) @ w * (fresh[:, 0] + fresh[:, 1] ** 2 - 1) > 0
    assert correct.mean() > 0.93


# Packed features.


def test_packed_features_are_right_to_their_last_bit():
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(700, 5)).astype(np.float32) * np.array([1, 100, 1e-4, 0, 1], np.float32)
    packed = PackedFeatures(phi)
    error = np.abs(packed.take(slice(None)) - phi).max(axis=0)
    assert np.all(error <= 0.51 * np.abs(phi).max(axis=0) / 32767)
    np.testing.assert_array_equal(packed.take([3, 699]), packed.take(slice(None))[[3, 699]])


def test_passes_over_packed_features_are_those_over_their_values(monkeypatch):
    """Against plain products with the features as they were packed."""
    monkeypatch.setattr("gemmed.model.kernels.feature_passes.PACK_FROM", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3)).astype(np.float32)
    made = nystroem_map(Kernel("rbf", gamma=0.3), X[:40])
    bytes_a_block = 500 * made.n_features * 4
    for budget in (bytes_a_block // 2, 2 * bytes_a_block):  # two blocks of three, and all
        passes = FeaturePasses(LocalBlocks(X, block_rows=500), made, budget)
        assert np.count_nonzero(passes.is_kept) == (1000 if budget < bytes_a_block else 1500)
        phi = made.features(X).astype(np.float64)
        w, c = rng.normal(size=made.n_features), rng.random(1500)
        directions = rng.normal(size=(made.n_features, 4))
        for found, expected in (
            (passes.values(w), phi @ w),
            (passes.squared_values(directions), ((phi @ directions) ** 2).sum(axis=1)),
            (passes.adjoint(c), c @ phi),
            (passes.normal_product(c, w), phi.T @ (c * (phi @ w))),
            (passes.gram(c), (phi.T * c) @ phi),
        ):
            np.testing.assert_allclose(
                found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max()
            )


def test_a_small_budget_never_packs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).astype(np.float32)
    made = nystroem_map(Kernel("rbf", gamma=0.3), X[:20])
    passes = FeaturePasses(LocalBlocks(X, block_rows=200), made, 200 * made.n_features * 4)
    assert np.count_nonzero(passes.is_kept) == 200
    w = np.ones(made.n_features)
    np.testing.assert_allclose(passes.values(w), made.features(X) @ w, rtol=1e-5)
