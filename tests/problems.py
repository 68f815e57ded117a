"""Random small dual problems that the engines are judged on."""

import numpy as np
import pytest

from gemmed.model.kernels.function_space import FeatureSpace, GramSpace
from gemmed.paper.dual import DualProblem, Multipliers


def seeds(few, many):
    """The first few in the default tests, the others in the slow ones."""
    return [*range(few), *(pytest.param(k, marks=pytest.mark.slow) for k in range(few, many))]


def random_problem(seed, n=10, c=None, n_features=3, gram=False, share=None, weights=None):
    """Both classes, unbalanced; two duplicate rows; C between 1.5 and 20."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, n_features)) * rng.uniform(0.3, 2.0)
    features[1] = features[0]
    n_positive = max(1, round(n * (rng.uniform(0.2, 0.8) if share is None else share)))
    labels = np.where(np.arange(n) < n_positive, 1.0, -1.0)
    d = rng.gamma(3.0, 0.4, size=n)
    d[1] = d[0]
    coverage = rng.uniform(0.3, 0.6, size=2)
    bounds = np.array(
        [1.2 * _smallest_mean(d[labels == z], b) for z, b in zip((-1, 1), coverage, strict=True)]
    )
    return DualProblem(
        space=GramSpace(features @ features.T) if gram else FeatureSpace(features),
        labels=labels,
        distances=d,
        prior_log_odds=np.full(n, rng.uniform(0.5, 4.0)),
        c=float(np.exp(rng.uniform(np.log(1.5), np.log(20.0)))) if c is None else c,
        coverage=coverage,
        entropy_bounds=bounds,
        weights=np.empty(0) if weights is None else weights,
    )


def random_multipliers(problem, seed, size=0.6):
    rng = np.random.default_rng(1000 + seed)
    n = problem.n_samples
    return Multipliers(
        rng.uniform(0.0, size * problem.c, n), rng.uniform(0, 2 * n, 2), rng.uniform(0, 2 * n, 2)
    )


def _smallest_mean(d, share):
    """(sum of the share of smallest values) / n, the last value counted in part."""
    ordered, k = np.sort(d), share * len(d)
    whole = int(k)
    return (ordered[:whole].sum() + (k - whole) * ordered[min(whole, len(d) - 1)]) / len(d)


def central_difference(function, x, step=1e-5):
    return np.array(
        [(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    )
