"""The function of one sensor."""

import numpy as np

from gemmed import SensorGEMMEDClassifier
from gemmed.estimators.fit_settings import label_samples
from gemmed.sensors.view_function import ViewLearner


def test_a_function_of_many_rows_does_not_depend_on_what_was_learned_before():
    """Rows that are good change the landmarks, so that earlier parameters mean something else."""
    rng = np.random.default_rng(0)
    n = 2500
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 8)) + y[:, None]
    model = SensorGEMMEDClassifier(random_state=0)
    samples = label_samples(y, np.ones(n), None, None, None)
    signs, settings = samples.columns(samples.known_or_given), model._settings(X, samples)

    def learner():
        return ViewLearner(X, signs, samples.class_index, None, np.ones(n), np.ones(n), settings)

    good = np.where(np.arange(n) < 400, 0.0, 1.0)
    twice, once = learner(), learner()
    twice.held_out(np.ones(n))
    difference = twice.held_out(good) - once.held_out(good)
    assert np.sqrt(np.mean(difference**2)) < 0.03
