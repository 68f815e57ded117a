"""The margin loss is the maximum over lam that its docstring says it is."""

import numpy as np
import pytest
from scipy import optimize

from gemmed.model.decision_step import margin_loss

MARGINS = np.array([-30.0, -3.0, -0.2, 0.0, 0.4, 0.66, 0.67, 0.9, 1.0, 2.0, 50.0])


@pytest.mark.parametrize("c", [1.5, 3.0, 20.0])
@pytest.mark.parametrize("softness", [0.0, 1e-9, 0.3, 5.0, 5000.0])
def test_equals_maximum_over_the_multiplier(c, softness):
    loss = margin_loss(MARGINS, c, softness)
    for margin, value, lam in zip(MARGINS, loss.value, loss.lam, strict=True):
        best = optimize.minimize_scalar(
            lambda x, m=margin: -(x * (1 - m) + np.log1p(-x / c) - 0.5 * softness * x * x),
            bounds=(0.0, c * (1 - 1e-13)),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert value >= -best.fun - 1e-9
        assert value == pytest.approx(-best.fun, abs=1e-6 * (1 + abs(value)))
        assert 0.0 <= lam < c


def test_without_softness_it_has_the_closed_form():
    c = 3.0
    v = c * (1 - MARGINS)
    expected = np.where(v > 1, v - 1 - np.log(np.maximum(v, 1)), 0.0)
    np.testing.assert_allclose(margin_loss(MARGINS, c).value, expected, atol=1e-13)


@pytest.mark.parametrize("softness", [0.0, 0.3, 50.0])
def test_lam_and_curvature_are_its_derivatives(softness):
    margins, c, h = np.linspace(-4, 0.5, 19), 3.0, 1e-5
    up, down = (margin_loss(margins + s, c, softness) for s in (h, -h))
    at = margin_loss(margins, c, softness)
    np.testing.assert_allclose((up.value - down.value) / (2 * h), -at.lam, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose((down.lam - up.lam) / (2 * h), at.curvature, rtol=1e-7, atol=1e-8)


def test_kept_samples_outside_the_margin_cost_nothing():
    loss = margin_loss(np.array([0.7, 1.0, 9.0]), 3.0, np.array([0.0, 1.0, 0.0]))
    assert not loss.value.any()
    assert not loss.lam.any()
    assert not loss.curvature.any()
