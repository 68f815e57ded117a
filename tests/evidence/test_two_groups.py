"""Two Gaussians on a line: right where there are two, and no group where there is one."""

import numpy as np
import pytest
from scipy import stats
from sklearn.mixture import GaussianMixture

from gemmed.evidence.far_groups import _of_class, split_in_two


def two_groups(seed, n_low=150, n_high=50, low=(0.0, 1.0), high=(8.0, 0.5)):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(*low, n_low), rng.normal(*high, n_high)])


def sklearn_fit(values):
    model = GaussianMixture(2, n_init=5, tol=1e-9, max_iter=1000, random_state=0)
    model.fit(values[:, None])
    order = np.argsort(model.means_[:, 0])
    deviations = np.sqrt(model.covariances_[order, 0, 0])
    return model, model.weights_[order], model.means_[order, 0], deviations


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"n_low": 180, "n_high": 10, "high": (9.0, 1.0)},
        {"n_low": 80, "n_high": 100, "high": (6.0, 1.0)},
        {"high": (12.0, 3.0)},
        {"high": (5.0, 0.2)},
    ],
)
def test_groups_that_are_clear_are_those_of_scikit_learn(parameters):
    values = two_groups(0, **parameters)
    groups = split_in_two(values)
    model, shares, means, deviations = sklearn_fit(values)
    assert groups.share == pytest.approx(shares[1], abs=2e-3)
    separation = (means[1] - means[0]) / np.sqrt(deviations[0] * deviations[1])
    assert groups.separation == pytest.approx(separation, rel=0.01)
    alone = stats.norm.logpdf(values, values.mean(), values.std()).mean()
    assert groups.gain == pytest.approx(
        2.0 * (model.score(values[:, None]) - alone), abs=2e-3 * (1 + groups.gain)
    )
    between = (values > means[0]) & (values < means[1])
    ratio = stats.norm.logpdf(values, means[1], deviations[1]) - stats.norm.logpdf(
        values, means[0], deviations[0]
    )
    # Between the means the ratio rises with the value: nothing was levelled there. The floor
    # under the variances widens the narrowest group by 1 %.
    np.testing.assert_allclose(groups.evidence[between], ratio[between], rtol=0.05, atol=0.2)
    predicted = model.predict(values[:, None]) == int(np.argmax(model.means_[:, 0]))
    np.testing.assert_array_equal(groups.high[between], predicted[between])


def test_the_truth_is_recovered():
    for n in (40, 200, 20_000):
        groups = split_in_two(two_groups(1, n - n // 4, n // 4))
        assert groups.share == pytest.approx(0.25, abs=5e-3)
        assert groups.separation == pytest.approx(8.0 / np.sqrt(0.5), rel=0.15)
        np.testing.assert_array_equal(groups.high, np.arange(n) >= n - n // 4)


def test_unit_and_origin_do_not_matter():
    values = two_groups(2, high=(4.0, 1.5))
    first, second = split_in_two(values), split_in_two(1e4 * values - 7e5)
    for one, other in zip(first[:3], second[:3], strict=True):
        assert one == pytest.approx(other, rel=1e-4)
    np.testing.assert_allclose(second.evidence, first.evidence, atol=1e-2)


@pytest.mark.parametrize("high", [(8.0, 0.5), (3.0, 6.0), (2.0, 0.1)])
def test_evidence_never_falls_with_the_value(high):
    values = two_groups(3, high=high)
    evidence = split_in_two(values).evidence
    assert np.all(np.diff(evidence[np.argsort(values)]) >= 0)
    assert evidence[np.argmin(values)] <= 0.0


def test_values_that_do_not_vary_have_no_groups():
    assert split_in_two(np.full(30, 2.5)) is None


def test_ties_are_finite():
    groups = split_in_two(np.repeat([0.0, 1.0], [20, 5]))
    assert np.all(np.isfinite(groups.evidence))
    np.testing.assert_array_equal(groups.high, np.repeat([False, True], [20, 5]))


@pytest.mark.parametrize(
    "n",
    [
        30,
        60,
        200,
    ],
)
def test_one_gaussian_rarely_stands_apart(n):
    """Of distances that are lognormal, as those of a whole class about are."""
    alarms = sum(
        bool(_of_class(np.exp(np.random.default_rng(seed).normal(size=n))).any())
        for seed in range(100)
    )
    assert alarms <= 5


def test_two_clear_groups_stand_apart():
    for seed in range(20):
        assert _of_class(np.exp(two_groups(seed))).any()
