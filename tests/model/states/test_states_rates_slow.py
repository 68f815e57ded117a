"""Rates of wrong labels on simulated data lie inside their 90 % intervals.

Scores are simulated such that (43) is true of them, which judges the inference alone; the whole fit
is judged by benchmarks/states/rates.py.
"""

import itertools

import numpy as np
import pytest
from gemmed.model.states.likelihood import LabelModel
from scipy import special

from gemmed.model.states.posterior import infer_states

pytestmark = pytest.mark.slow

RATES = (0.05, 0.1, 0.2, 0.3, 0.45)
KINDS = ("symmetric", "one-sided")


def simulated(n, n_classes, kind, rate, seed):
    """Held-out scores worth 5.6 a unit, given labels, rates, and which labels are wrong."""
    rng = np.random.default_rng([seed, n, n_classes])
    near = rng.integers(n_classes, size=n)
    scores = 0.25 * rng.normal(size=(n, n_classes))
    scores[np.arange(n), near] += 0.6
    proba = special.softmax(5.6 * scores, axis=1)
    truth = (rng.random((n, 1)) > np.cumsum(proba, axis=1)).sum(axis=1).clip(max=n_classes - 1)
    rates = np.full(n_classes, rate)
    if kind == "one-sided":
        rates[1:] = 0.0
    wrong = rng.random(n) < rates[truth]
    given = np.where(wrong, (truth + rng.integers(1, n_classes, n)) % n_classes, truth)
    return scores, given, rates, wrong


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("n", "runs"), [(200, 12), (1000, 8), (5000, 4)])
def test_rates_lie_in_their_intervals(n, runs, n_classes):
    shares, rates, errors, widths = [], [], [], []
    for kind, rate, seed in itertools.product(KINDS, RATES, range(runs)):
        scores, given, true_rates, wrong = simulated(n, n_classes, kind, rate, seed)
        found = infer_states(LabelModel(scores[None], given, None, np.ones(n)))
        low, high = found.wrong_share[1:]
        shares.append(low - 1e-9 <= wrong.mean() <= high + 1e-9)
        within = found.rate_intervals + np.array([-1e-9, 1e-9])
        rates.append(((within[:, 0] <= true_rates) & (true_rates <= within[:, 1])).mean())
        errors.append(found.wrong_share.mean - wrong.mean())
        widths.append(high - low)
    # Nominally 0.9; the likelihood has a power below one, which makes intervals wider.
    message = f"shares {np.mean(shares):.3f}, rates {np.mean(rates):.3f}"
    assert np.mean(shares) >= 0.85 and np.mean(rates) >= 0.85, message
    assert np.abs(errors).mean() < 0.06
    assert np.mean(widths) < 0.35, "an interval that is the whole range says nothing"
