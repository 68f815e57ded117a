"""Readings beside a fault in the timeline of sensors."""

import numpy as np

from gemmed.report.timeline import SensorReadings, ShownSpan, _level


def span(first, last):
    return ShownSpan("s", "broken", first, last, "a", "b", 1.0)


def test_the_channel_that_moved_most_is_named():
    values = np.zeros((100, 2))
    values[:, 0] = np.sin(np.arange(100.0))
    values[60:80, 1] = 5.0
    of = {"s": SensorReadings("s", ("t", "p"), values)}
    assert _level(span(60, 79), of) == "p: 0 → 5"
    assert "start → " in _level(span(0, 9), of)
    values[60:80, 1] = np.nan
    one = {"s": SensorReadings("s", ("p",), values[:, 1:])}
    assert _level(span(60, 79), one) == "0 → missing"
