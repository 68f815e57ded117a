"""Definition 1 written down from the data: distances, bounds, the sum over indicators, a solver.

Nothing here uses a formula of the package; each test compares the package with it.
"""

from itertools import product

import numpy as np
import pytest
from scipy import optimize

from gemmed.paper import GEMMEDClassifier

N = 6
CASES = [  # kernel, c, prior probability of "nominal", coverage, entropy slack
    ("linear", 3.0, 0.95, 0.5, 0.3),
    ("rbf", 3.0, 0.95, 0.5, 0.3),
    ("rbf", 2.0, 0.8, 0.7, 0.1),
    ("linear", 5.0, 0.9, 0.6, 0.05),
]


def samples(seed):
    """Three samples of each class; the last one has the label of the other side."""
    y = np.tile([-1.0, 1.0], 3)
    X = np.random.default_rng(seed).normal(size=(N, 2)) + 1.5 * (y > 0)[:, None]
    X[-1] = -2.0, -3.0
    return X, y


class Definition:
    """The dual function of Definition 1, its gradient and E[eta], by enumeration."""

    def __init__(self, X, y, kernel, c, prior, coverage, slack):
        gram = X @ X.T
        if kernel == "rbf":
            squares = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
            gram = np.exp(-squares / (2 * X.var()))
        self.K = gram / np.diag(gram).mean() + 1.0  # the bias is part of the kernel
        self.y, self.c, self.prior, self.coverage = y, c, prior, coverage
        self.own = [np.flatnonzero(y == label) for label in (-1, 1)]
        self.d, self.gamma = np.empty(N), np.empty(2)
        for z, own in enumerate(self.own):
            apart = np.linalg.norm(X[own, None] - X[own], axis=2) + np.diag(np.full(3, np.inf))
            nearest = apart.min(axis=1)
            self.d[own] = nearest / np.median(nearest)
            # A share of three samples: whole ones first, the last one in part.
            parts = np.clip(3 * coverage - np.arange(3), 0, 1)
            self.gamma[z] = (1 + slack) * parts @ np.sort(self.d[own]) / 3

    def __call__(self, at):
        """D = -log of the prior mean of exp(-multipliers × constraints), gradient, E[eta]."""
        lam, mu, kappa = at[:N], at[N : N + 2], at[N + 2 :]
        states = np.array(list(product([0.0, 1.0], repeat=N)))
        weights, means = np.empty(len(states)), np.empty((len(states), N))
        for i, eta in enumerate(states):
            # E exp(-lam xi) for the density c exp(-c (1 - xi)) below 1, where eta = 1.
            margins = (np.exp(-lam) * self.c / (self.c - lam)) ** eta
            kept = np.prod(np.where(eta == 1, self.prior, 1 - self.prior) * margins)
            means[i] = self.K @ (eta * lam * self.y)
            kept *= np.exp(0.5 * (eta * lam * self.y) @ means[i])
            for z, own in enumerate(self.own):
                kept *= np.exp(-mu[z] * (eta[own] @ self.d[own] / 3 - self.gamma[z]))
                kept *= np.exp(kappa[z] * (eta[own].mean() - self.coverage))
            weights[i] = kept
        q = weights / weights.sum()
        nominal = q @ states
        margin = nominal * (1 - 1 / (self.c - lam)) - q @ (states * means * self.y)
        entropy = [nominal[own] @ self.d[own] / 3 for own in self.own] - self.gamma
        missing = self.coverage - np.array([nominal[own].mean() for own in self.own])
        return -np.log(weights.sum()), np.concatenate([margin, entropy, missing]), nominal


@pytest.mark.parametrize("case", CASES)
def test_the_exact_engine_solves_definition_one(case):
    X, y = samples(7)
    own, (kernel, c, prior, coverage, slack) = Definition(X, y, *case), case
    model = GEMMEDClassifier(
        kernel,
        C=c,
        prior_nominal=prior,
        coverage=coverage,
        entropy_slack=slack,
        n_neighbors=1,
        neighbor_graph="leave_one_out",
        engine="exact",
        tol=1e-11,
    ).fit(X, y)
    np.testing.assert_allclose(model.knn_distances_, own.d, atol=1e-12)
    np.testing.assert_allclose(model.entropy_bounds_, own.gamma, atol=1e-12)
    found = np.concatenate([model.margin_duals_, model.entropy_duals_, model.coverage_duals_])
    value, gradient, nominal = own(found)
    assert model.dual_value_ == pytest.approx(value, abs=1e-12)
    np.testing.assert_allclose(model.nominal_proba_, nominal, atol=1e-12)
    assert np.abs(np.where(found > 0, gradient, np.maximum(gradient, 0))).max() < 1e-9
    bounds = [(0, 0.999 * c)] * N + [(0, 1e3)] * 4
    other = optimize.minimize(
        lambda at: tuple(-part for part in own(at)[:2]),
        np.ones(N + 4),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 5000},
    )
    assert model.dual_value_ == pytest.approx(-other.fun, abs=1e-12)
    np.testing.assert_allclose(model.nominal_proba_, own(other.x)[2], atol=1e-8)


def test_the_gradient_is_that_of_differences():
    own, at = Definition(*samples(7), *CASES[0]), np.linspace(0.3, 1.5, N + 4)
    steps = 1e-6 * np.eye(N + 4)
    slopes = [(own(at + step)[0] - own(at - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(own(at)[1], slopes, atol=1e-8)
