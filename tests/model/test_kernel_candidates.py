"""Candidates for a kernel and their scores, with the numbers of the choice written out."""

import numpy as np
import pytest
from scipy import special
from sklearn.datasets import make_moons

from gemmed.model.decision_step import class_scores, fit_slope
from gemmed.model.kernels.kernel import Kernel
from gemmed.model.med import groups_to_hold_out, parts_of, wrong_predictions
from gemmed.model.tuning import _width, tune_kernel


def candidates_of(kernel, n_functions=1, n=60):
    X, y = make_moons(n, noise=0.3, random_state=1)
    signs = np.column_stack([np.where(y > 0, 1.0, -1.0)] * n_functions)
    choice = {"tune_gamma": True, "tune_variance": True, "tune_bias": True}
    return X, tune_kernel(kernel, X, signs, np.full(n, 1.5), 3.0, **choice)[1]


@pytest.mark.parametrize("n_functions", [1, 2])
def test_radial_candidates_prefer_the_usual_width_and_amplitude(n_functions):
    _, found = candidates_of(Kernel("rbf", gamma=0.8), n_functions)
    expected = {(w, v) for w in (0.3, 1.0, 3.0) for v in (0.1, 0.3, 1.0, 3.0)}
    pairs = set()
    for kernel, loss, score in found:
        width, variance = round(kernel.gamma / 0.8, 9), round(kernel.function_variance, 9)
        pairs.add((width, variance))
        assert kernel.bias_variance == pytest.approx(variance)
        distance = np.log(width / 0.6) ** 2 / 1.5 + np.log(variance / 0.6) ** 2 / 2.0
        assert score - loss == pytest.approx(0.002 * distance / n_functions)
    assert pairs <= expected
    assert len(pairs) >= 9


def test_linear_candidates_pay_for_amplitude_and_bias():
    """Variances are those around the centre of the samples, in units of their mean square."""
    X, found = candidates_of(Kernel("linear"))
    centre = X.mean(axis=0)
    typical = np.mean((X**2).sum(axis=1)) - centre @ centre
    shares = set()
    for kernel, loss, score in found:
        variance = kernel.function_variance * typical
        bias = kernel.bias_variance - kernel.function_variance * centre @ centre
        share = round(bias / variance, 6)
        shares.add(share)
        assert min(abs(variance - v) for v in (0.03, 0.1, 0.3, 1.0, 3.0)) < 1e-9
        expected = (1.5 * np.log(variance) + 10.0 * (share == 1.0)) / 90.0
        assert score - loss == pytest.approx(expected)
    assert shares == {1.0, 0.01}


def test_width_is_that_of_trusted_rows_unless_far_ones_set_the_scale():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    X *= 2.0 / X.std()
    assert _width(X, X, 7.0) == 7.0  # nothing is out of proportion
    far = X.copy()
    far[:5] += 100.0
    assert far.var() > 10.0 * X[5:].var()
    assert _width(far, far[5:], 7.0) == pytest.approx(1.0 / (4 * far[5:].var()))
    half = X.copy()
    half[:5] += 20.0
    assert half[5:].var() > 0.1 * half.var()
    assert _width(half, half[5:], 7.0) == 7.0


def test_slope_is_that_of_the_targets_of_platt():
    """One margin of each sign: the share of right ones is that of the target."""
    margins, weights = np.array([1.0, -1.0]), np.array([6.0, 2.0])
    target = 1.0 - 1.0 / 10.0
    right = (6.0 * target + 2.0 * (1.0 - target)) / 8.0
    assert fit_slope(margins, weights) == pytest.approx(special.logit(right), rel=1e-4)


def test_scores_of_two_classes_are_halves_of_the_decision_value():
    np.testing.assert_array_equal(
        class_scores(np.array([[3.0], [-1.0]])), [[-1.5, 1.5], [0.5, -0.5]]
    )
    three = np.eye(3)
    assert class_scores(three) is three


def test_wrong_predictions_of_two_and_of_three_classes():
    found = wrong_predictions(np.array([[0.5], [0.0], [-0.2]]), np.array([[1.0], [-1.0], [1.0]]))
    np.testing.assert_array_equal(found, [False, True, True])
    signs = 2.0 * np.eye(3) - 1.0
    values = np.array([[0.2, 0.1, -1.0], [0.2, 0.1, -1.0], [-3.0, -2.0, -1.0]])
    np.testing.assert_array_equal(wrong_predictions(values * signs, signs), [False, True, False])


def test_parts_hold_a_fifth_of_the_rows_whatever_their_order():
    margins = np.random.default_rng(0).normal(size=(100, 3))
    parts = parts_of(margins)
    np.testing.assert_array_equal(np.bincount(parts), np.full(5, 20))
    order = np.random.default_rng(1).permutation(100)
    np.testing.assert_array_equal(parts_of(margins[order]), parts[order])
    np.testing.assert_array_equal(parts_of(-margins[:, ::-1]), parts)  # classes by other names
    assert np.any(parts[np.argsort(np.abs(margins).sum(axis=1))] != np.arange(100) % 5)
    whole = parts_of(margins, np.arange(100) // 2)
    np.testing.assert_array_equal(whole, parts[::2].repeat(2))


def test_groups_are_held_out_if_every_class_has_ten():
    groups, classes = np.arange(40) // 2, np.arange(40) // 20
    assert groups_to_hold_out(groups, classes) is groups
    assert groups_to_hold_out(np.arange(40) // 3, classes) is None
    assert groups_to_hold_out(None, classes) is None
    assert groups_to_hold_out(np.arange(3001), np.zeros(3001, int)) is None
