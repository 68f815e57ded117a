"""How many independent stretches normal rows are worth, and what a new stretch may bring."""

import numpy as np
import pytest

from gemmed.sensors import SensorMonitor
from gemmed.sensors.calibration import independent_stretches, of_new_stretch
from gemmed.sensors.normal_fit import blocks_of_rows


def autoregressive(n, kept, seed=0):
    rng = np.random.default_rng(seed)
    x = np.zeros((n, 1))
    for t in range(1, n):
        x[t] = kept * x[t - 1] + np.sqrt(1 - kept**2) * rng.normal()
    return x


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.9])
def test_correlated_rows_are_worth_fewer(kept):
    expected = (1 - kept) / (1 + kept)  # of an autoregression of order 1
    worth = independent_stretches([autoregressive(20_000, kept)]) / 20_000
    assert worth == pytest.approx(expected, rel=0.2)


def test_slowest_channel_counts_and_gaps_do_not_matter():
    fast, slow = autoregressive(4000, 0.0), autoregressive(4000, 0.95, 1)
    both = np.hstack([fast, slow])
    alone = independent_stretches([slow])
    assert independent_stretches([both]) == pytest.approx(alone)
    assert independent_stretches([both[:2500], both[2500:]]) == pytest.approx(alone, rel=0.1)
    both[::7] = np.nan
    assert independent_stretches([both]) == pytest.approx(alone, rel=0.35)


def test_no_more_blocks_than_independent_stretches():
    X = np.zeros((4000, 2))
    assert len(np.unique(blocks_of_rows([X], 40, 1000.0)[0])) == 10
    assert len(np.unique(blocks_of_rows([X], 40, 7.5)[0])) == 7
    assert len(np.unique(blocks_of_rows([X], 40, 2.0)[0])) == 5


def test_new_stretch_is_shifted_as_blocks_are():
    rng = np.random.default_rng(0)
    blocks = np.repeat(np.arange(10), 200)
    noise = rng.normal(size=(2000, 1))
    same = of_new_stretch(noise, blocks, np.inf)
    assert same.std() == pytest.approx(noise.std(), rel=0.03)
    moved = noise + rng.normal(size=10)[blocks][:, None]
    new = of_new_stretch(moved, blocks, np.inf)
    assert new.std() > 1.02 * moved.std()
    assert of_new_stretch(moved, blocks, 3.0).std() > 1.3 * new.std()


@pytest.mark.slow
def test_alarms_of_a_slow_plant_stay_rare_and_the_promise_is_stated():
    """Four stretches of normal rows do not show all that is normal."""
    shares, promised = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        hidden = autoregressive(8000, 0.995, seed)
        X = hidden @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(8000, 4))
        monitor = SensorMonitor(false_alarm_rate=0.01, random_state=0).fit(X[:1500])
        shares.append(monitor.judge(X[4000:]).plant_alarm.mean())
        promised.append(monitor.promised_rate_)
        assert monitor.promised_rate_ == pytest.approx(1 / (monitor.n_independent_ + 1))
    assert 0.05 < np.mean(promised) < 0.5
    assert np.mean(shares) < np.mean(promised)
