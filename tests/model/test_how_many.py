"""The number of landmarks is chosen by held-out loss."""

import numpy as np

from gemmed import listening
from gemmed.model.how_many import (
    choose_landmark_number,
    feature_prior,
    landmark_numbers,
    most_landmarks,
)
from gemmed.model.kernels.exact_or_features import AtMost, components_for, landmark_prior
from gemmed.model.kernels.kernel import Kernel
from gemmed.rows.blocks import BlockRows, LocalBlocks


def problem(n, n_clusters, seed=0):
    """Clusters of two classes on a grid: the more there are, the more landmarks are needed."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-1.0, 1.0, size=(n_clusters, 3)) * n_clusters ** (1 / 3)
    which = rng.integers(0, n_clusters, n)
    X = centres[which] + 0.25 * rng.normal(size=(n, 3))
    return X, which % 2


def chosen(n_clusters, *, n_threads=1, listener=None):
    X, classes = problem(4000, n_clusters)
    blocks = BlockRows(LocalBlocks(X, n_threads=n_threads))
    kernel, trust = Kernel("rbf", gamma=1.0), np.ones(len(X))

    def prior_with(number):
        return landmark_prior(kernel, blocks, classes, trust, number, 0)

    signs = np.where(classes == 1, 1.0, -1.0)[:, None]
    with listening(listener or (lambda event: None)):
        return choose_landmark_number(
            prior_with, signs, trust, 3.0, 400, lambda number: 8.0 * number, 0
        )


def numbers_from(fewest, monkeypatch):
    monkeypatch.setattr("gemmed.model.how_many.FEWEST_LANDMARKS", fewest)


def test_numbers_double_up_to_the_limit():
    assert list(landmark_numbers(8000)) == [500, 1000, 2000, 4000, 8000]
    assert list(landmark_numbers(1100)) == [500, 1000]
    assert list(landmark_numbers(1400)) == [500, 1000, 1400]
    assert list(landmark_numbers(3577)) == [500, 1000, 2000, 3577]
    assert list(landmark_numbers(300)) == [300]


def test_a_simple_problem_stops_early_and_a_hard_one_does_not(monkeypatch):
    numbers_from(25, monkeypatch)
    simple, hard = chosen(2), chosen(150)
    assert [level.n_landmarks for level in simple.levels] == [25, 50, 100]
    assert hard.levels[-1].n_landmarks >= 200
    assert all(level.gain > level.error for level in hard.levels[1:-1])
    assert hard.levels[-1].loss < hard.levels[0].loss - 0.05


def test_the_last_number_is_taken_without_asking(monkeypatch):
    numbers_from(25, monkeypatch)
    found = chosen(150)
    assert [level.n_landmarks for level in found.levels] == [25, 50, 100, 200]
    assert len(found.prior.feature_map.landmarks) > 300
    assert found.prior.space.known is None


def test_a_search_that_cannot_end_early_is_not_made(monkeypatch):
    """Of three numbers the last is taken without fits of the others."""
    numbers_from(100, monkeypatch)
    found = chosen(150)
    assert found.levels == []
    assert len(found.prior.feature_map.landmarks) > 300


def test_threads_do_not_change_the_choice(monkeypatch):
    numbers_from(25, monkeypatch)
    assert chosen(20).levels == chosen(20, n_threads=3).levels


def test_memory_and_time_are_said_before_and_a_listener_may_stop(monkeypatch):
    numbers_from(25, monkeypatch)
    events = []

    def listener(event):
        events.append(event)
        return event.facts.get("landmarks") == 50.0

    found = chosen(150, listener=listener)
    assert found.levels[-1].n_landmarks == 50
    first, second = events[0], events[1]
    assert first.facts["megabytes"] > 0
    assert "seconds_left" not in first.facts
    assert second.facts["seconds_left"] > 0
    assert found.prior.space.known is not None


def test_a_number_is_taken_as_it_is():
    X, classes = problem(3000, 10)
    rows = BlockRows(LocalBlocks(X))
    given = {"c": 3.0, "weights": np.ones(3000)}
    arguments = (Kernel("rbf"), rows, classes, np.ones(3000))
    fixed = feature_prior(*arguments, 60, 0, **given)
    assert len(fixed.feature_map.landmarks) <= 60
    limited = feature_prior(*arguments, AtMost(60), 0, **given)
    np.testing.assert_array_equal(limited.feature_map.landmarks, fixed.feature_map.landmarks)


def test_many_functions_have_fewer_landmarks():
    assert [most_landmarks(k, 10**5) for k in (1, 4, 16)] == [8000, 2828, 1000]
    assert [most_landmarks(k, 5000) for k in (1, 4, 16, 26)] == [8000, 2500, 625, 500]
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(1400, 2)), np.arange(1400) % 64
    made = feature_prior(
        Kernel("rbf", gamma=50.0),
        BlockRows(LocalBlocks(X)),
        classes,
        np.ones(1400),
        AtMost(1350),
        0,
        c=3.0,
        weights=np.ones(1400),
    )
    assert made.feature_map.n_features <= most_landmarks(64, 1400) + 1 < 1350


def test_which_samples_keep_the_exact_kernel():
    found = [components_for("auto", n) for n in (2000, 2001, 10_000, 20_000, 100_000, 10**6)]
    assert found == [None, 500, 2500, 5000, 8000, 1100]
    assert all(isinstance(limit, AtMost) for limit in found[1:])
    assert not isinstance(components_for(50, 100), AtMost)
    for n, wanted in ((1000, None), (1001, 500), (2100, 525)):
        assert components_for("auto", n, several=True) == wanted
    assert components_for(50, 100) == 50
    assert components_for(None, 10**6) is None
