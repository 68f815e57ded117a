"""Missing channels are filled from the others; sensors that say nothing are left out."""

import numpy as np
import pytest

from gemmed import GemmedWarning, SensorDetector, SensorGEMMEDClassifier
from gemmed.sensors.sensor_columns import learn_columns


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 100)
    return rng.normal(size=(200, 6)) + 1.5 * y[:, None], y


def test_fill_is_regression_on_the_other_channels():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 3)) @ np.array([[1, 1, 0], [0, 0.1, 0], [0, 0, 1.0]]) + 5
    columns = learn_columns(X, {"a": np.arange(3)}, {"a": np.arange(3)})
    hidden = X[:200].copy()
    hidden[:, 1] = np.nan
    filled = columns.of(hidden).blocks[0]
    assert np.corrcoef(filled[:, 1], X[:200, 1])[0, 1] > 0.98
    assert np.array_equal(filled[:, [0, 2]], X[:200, [0, 2]])
    hidden[:, 2] = np.nan  # one of three channels is too few
    found = columns.of(hidden)
    assert np.isnan(found.blocks[0][:, 1:]).all() and not found.present.any()


@pytest.mark.parametrize("value", [np.nan, 3.0])
def test_sensors_without_different_readings_are_left_out(value):
    X, y = data()
    X[:, 2:4] = value
    with pytest.warns(GemmedWarning, match="left out: 2$"):
        model = SensorGEMMEDClassifier(views=3, random_state=0).fit(X, y)
    assert model.sensor_names_ == ("1", "3") and model.broken_proba_.shape == (200, 2)
    assert model.score(X, y) > 0.85
    with pytest.warns(GemmedWarning, match="left out: 2$"):
        detector = SensorDetector(views=3, random_state=0).fit(X)
    assert detector.screen(X).names == ("1", "3")
    X[:] = value
    with pytest.raises(ValueError, match="no sensor has two different readings"):
        SensorDetector(views=3).fit(X)


def test_few_missing_cells_do_not_make_a_sensor_missing():
    X, y = data()
    X[np.random.default_rng(2).random(X.shape) < 0.05] = np.nan
    model = SensorGEMMEDClassifier(views=[[0, 1, 2], [3, 4, 5]], random_state=0).fit(X, y)
    assert model.screen(X).missing.mean() < 0.03  # two of three channels gone: 0.7 %
