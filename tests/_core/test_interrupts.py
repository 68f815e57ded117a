"""Ctrl-C as a wish to end a fit early."""

import signal
import threading
import warnings

import numpy as np
import pytest

from gemmed import MEDClassifier, listening, stop_on_interrupt
from gemmed._core.progress import report
from gemmed.model.decision_step import solve_med_functions
from gemmed.model.kernels.function_space import GramSpace
from gemmed.model.kernels.kernel import Kernel


def test_the_first_one_asks_and_the_second_one_ends():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt():
        assert not report("solver", 1)
        signal.raise_signal(signal.SIGINT)
        assert report("solver", 2)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    assert not report("solver", 3)


def test_a_solver_keeps_what_it_has():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    signs = np.where(X[:, :1] > 0, 1.0, -1.0)
    space = GramSpace(Kernel("rbf").gram(X))

    def press(event):
        if event.done == 1:
            signal.raise_signal(signal.SIGINT)

    with listening(press), stop_on_interrupt():
        found = solve_med_functions(
            space, signs, 3.0, np.ones(80), max_iter=50, tol=1e-12, stage="solver"
        )[0]
    assert found.n_iter == 1
    assert not found.converged
    assert np.mean(found.decision.margins > 0) > 0.9


def test_in_another_thread_nothing_happens():
    scores = []

    def fit():
        X = np.random.default_rng(0).normal(size=(40, 2))
        with stop_on_interrupt(), warnings.catch_warnings():
            scores.append(MEDClassifier().fit(X, X[:, 0] > 0).score(X, X[:, 0] > 0))

    thread = threading.Thread(target=fit)
    thread.start()
    thread.join()
    assert scores[0] > 0.9
