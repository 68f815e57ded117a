"""Width and amplitude on many rows: more detail only where rows that take no part want it."""

from dataclasses import replace

import numpy as np
import pytest

from gemmed.model.decision_step import solve_med
from gemmed.model.kernels.centre_space import CentreSpace
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.kernels.nystroem import nystroem_map
from gemmed.model.refined_kernel import (
    LARGER,
    LARGEST,
    NARROWER,
    _Detail,
    _Trial,
    refine_kernel,
)
from gemmed.rows.blocks import LocalBlocks
from gemmed.rows.training_rows import ArrayRows, BlockRows

COARSE = Kernel("rbf", gamma=0.3, function_variance=0.1, bias_variance=0.1)


def checkerboard(n, noise, seed=0):
    """Squares of two classes in the plane; a share of the labels is random."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, size=(n, 2))
    y = np.where(np.floor(X).sum(axis=1) % 2, 1.0, -1.0)
    y[rng.random(n) < noise] *= -1.0
    return X, y[:, None]


def fine_and_coarse(n, noise, seed=0):
    """Two halves of the plane; in one corner small squares of either class."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, size=(n, 2))
    X[: n // 3] = rng.uniform(0.0, 1.0, size=(n // 3, 2))
    small = np.floor(4.0 * X).sum(axis=1) % 2 > 0
    y = np.where(np.where(X.max(axis=1) < 1.0, small, X[:, 0] > 3.0), 1.0, -1.0)
    y[rng.random(n) < noise] *= -1.0
    return X, y[:, None]


def refined(kernel, X, signs, *, shape=False, gamma=True, variance=True, seed=0):
    return refine_kernel(
        ArrayRows(X),
        kernel,
        signs,
        np.ones(len(X)),
        3.0,
        shape=shape,
        gamma=gamma,
        variance=variance,
        seed=seed,
    )


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_detail_of_several_sizes_wants_several_widths(noise):
    X, signs = fine_and_coarse(4000, noise)
    assert refined(COARSE, X, signs, shape=True).name == "rational_quadratic"
    assert refined(COARSE, X, signs, shape=False).name == "rbf"


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_detail_of_one_size_wants_one_width(noise):
    X, signs = checkerboard(4000, noise)
    found = refined(COARSE, X, signs, shape=True)
    assert found == refined(COARSE, X, signs, shape=False)
    assert found.name == "rbf"


def test_detail_that_rows_support_is_taken_step_by_step():
    X, signs = checkerboard(4000, 0.0)
    found = refined(COARSE, X, signs)
    # Squares of length 1 want a width below it: one step is not enough.
    assert found.gamma >= NARROWER**2 * COARSE.gamma * 0.999
    assert found.function_variance >= LARGER**2 * COARSE.function_variance * 0.999
    assert found.bias_variance / COARSE.bias_variance == pytest.approx(
        found.function_variance / COARSE.function_variance
    )


def test_what_is_given_stays():
    X, signs = checkerboard(4000, 0.0)
    wide = refined(COARSE, X, signs, gamma=False)
    assert wide.gamma == COARSE.gamma
    assert wide.function_variance > COARSE.function_variance
    small = refined(COARSE, X, signs, variance=False)
    assert small == replace(COARSE, gamma=small.gamma)
    assert small.gamma > COARSE.gamma
    assert refined(COARSE, X, signs, gamma=False, variance=False) == COARSE


def test_noise_is_not_detail():
    X, signs = checkerboard(3000, 0.5)
    kernel = Kernel("rbf", gamma=1.0, function_variance=0.1, bias_variance=0.1)
    for seed in range(4):
        found = refined(kernel, X, signs, seed=seed)
        assert found.gamma == kernel.gamma
        assert found.function_variance <= kernel.function_variance


@pytest.mark.parametrize(
    ("n", "turns", "n_fitted", "n_judges"),
    [(3000, 3, 2000, 1000), (9000, 2, 6000, 3000), (24_000, 1, 15_000, 9_000)],
)
def test_rows_judge_fits_that_they_take_no_part_in(n, turns, n_fitted, n_judges):
    rng = np.random.default_rng(0)
    X, signs, weights = rng.normal(size=(n, 2)), np.ones((n, 1)), rng.permutation(n) + 1.0
    signs[: n // 2] = -1.0
    trial = _Trial(ArrayRows(X), COARSE, signs, weights, 3.0, 0)
    judges = [set(split.judging) for split in trial._splits]
    fitted = [set(split._weights) for split in trial._splits]
    assert [len(own) for own in judges] == [n_judges] * turns
    assert [len(own) for own in fitted] == [n_fitted] * turns
    assert not any(own & other for own, other in zip(judges, fitted, strict=True))
    assert len(set.union(*judges)) == turns * n_judges  # nobody judges twice
    assert trial._judging.sum() == pytest.approx(1.0)


class Surface(_Trial):
    """Kernels whose losses are a bowl: narrower ones are better only at a smaller amplitude."""

    def __init__(self):
        self._kernel = COARSE
        self._judging = np.full(100, 0.01)
        self.asked = []

    def _losses_of(self, detail):
        self.asked.append(detail)
        _, narrower, larger = detail
        bowl = (narrower - 3) ** 2 + (larger + 2) ** 2 + 0.75 * (narrower - 3) * (larger + 2)
        return bowl + 0.1 * np.random.default_rng(narrower + 100).normal(size=100)


def test_more_detail_is_tried_again_after_a_smaller_amplitude():
    trial = Surface()
    found = trial.climb(_Detail("rbf", 2, 0), [(0, 1), (1, 0)], [(0, -1)])
    assert found == ("rbf", 3, -2)
    assert _Detail("rbf", 3, 0) in trial.asked  # worse at the first amplitude


def test_enough_detail_stays():
    X, signs = checkerboard(3000, 0.2)
    fine = Kernel("rbf", gamma=9.0, function_variance=3.0, bias_variance=3.0)
    for seed in range(4):
        found = refined(fine, X, signs, seed=seed)
        assert found.gamma == fine.gamma
        assert found.function_variance <= fine.function_variance


def test_an_amplitude_that_few_rows_took_too_large_becomes_smaller():
    X, signs = checkerboard(6000, 0.2)
    large = Kernel("rbf", gamma=9.0, function_variance=10.0, bias_variance=10.0)
    found = refined(large, X, signs)
    assert found.function_variance <= 1.001 * large.function_variance / LARGER
    assert found.gamma == large.gamma


def test_wrong_labels_do_not_hide_detail():
    X, signs = checkerboard(6000, 0.2)
    assert refined(COARSE, X, signs).gamma >= NARROWER**2 * COARSE.gamma * 0.999


def test_several_classes():
    X, signs = checkerboard(3000, 0.0)
    classes = (X[:, 0] > 3.0) + 2 * (signs[:, 0] > 0)
    found = refined(COARSE, X, np.where(classes[:, None] == np.arange(4), 1.0, -1.0))
    assert found.gamma > COARSE.gamma


def test_threads_change_nothing():
    X, signs = checkerboard(3000, 0.1)
    one, two = (
        refine_kernel(
            BlockRows(LocalBlocks(X, n_threads=number)),
            COARSE,
            signs,
            np.ones(len(X)),
            3.0,
            shape=True,
            gamma=True,
            variance=True,
            seed=0,
        )
        for number in (1, 2)
    )
    assert one == two != COARSE


def test_an_amplitude_is_a_factor_of_the_weights():
    X, signs = checkerboard(2000, 0.1)
    kernel = Kernel("rbf", gamma=1.0, function_variance=0.5, bias_variance=0.5)
    larger = replace(kernel, function_variance=1.5, bias_variance=1.5)
    found = [
        solve_med(
            CentreSpace(LocalBlocks(X), nystroem_map(own, X[:200])),
            signs[:, 0],
            3.0,
            np.full(len(X), weight),
            max_iter=50,
            tol=1e-6,
        ).decision.f
        for own, weight in ((larger, 1.0), (kernel, 3.0))
    ]
    np.testing.assert_allclose(found[0], found[1], atol=0.02)
    assert np.abs(found[0]).max() > 0.5


def test_amplitudes_have_an_end():
    X, signs = checkerboard(3000, 0.0)
    found = refined(replace(COARSE, gamma=9.0, function_variance=LARGEST / 2.0), X, signs)
    assert found.function_variance == LARGEST / 2.0
