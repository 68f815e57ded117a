"""Long fits say what they do, and end cleanly when they are interrupted."""

import logging
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from copy import deepcopy

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

from gemmed import GEMDetector, GEMMEDClassifier, MEDClassifier, Solver
from gemmed._core.progress import STAGES, listening, report, reported
from gemmed._core.threads import _controller, blas_threads
from gemmed.paper import GEMMEDClassifier as PaperGEMMEDClassifier
from gemmed.rows.blocks import BLOCK_ROWS, MIN_BLOCKS

KERNEL = {
    "gamma": 0.3,
    "kernel_params": {"function_variance": 1.0, "bias_variance": 1.0},
    "base": None,
}


def sample(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
    y[: n // 20] = 1 - y[: n // 20]
    return X, y


def events_of(fit, *arguments):
    events = []
    with listening(events.append):
        model = fit(*arguments)
    return events, model


class Interrupt:
    """Ctrl-C at the n-th event of a stage."""

    def __init__(self, stage, n=1):
        self.stage, self.left = stage, n

    def __call__(self, event):
        if event.stage == self.stage:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


# -- what is said ------------------------------------------------------------------------------


def test_a_fit_tells_its_stages_in_order():
    events, model = events_of(GEMMEDClassifier(random_state=0).fit, *sample())
    assert tuple(dict.fromkeys(event.stage for event in events)) == STAGES
    candidates = [event for event in events if event.stage == "kernel" and event.done]
    assert [event.done for event in candidates] == list(range(1, len(model.tuning_) + 1))
    assert {event.total for event in candidates} == {len(model.tuning_)}
    assert [event.facts["loss"] for event in candidates] == [c.loss for c in model.tuning_]


def test_the_solver_tells_every_iteration_with_its_gap():
    events, model = events_of(GEMMEDClassifier(random_state=0, **KERNEL).fit, *sample())
    solver = [event for event in events if event.stage == "solver" and event.done]
    assert [event.done for event in solver] == list(range(1, model.n_iter_ + 1))
    assert solver[-1].facts["gap"] == model.duality_gap_
    assert solver[0].facts["gap"] > solver[-1].facts["gap"]
    assert "kernel" not in {event.stage for event in events}  # nothing was tuned


@pytest.mark.parametrize("engine", ["gibbs", "paper"])
def test_the_other_engines_tell_their_iterations(engine):
    model = PaperGEMMEDClassifier(
        "linear", engine=engine, max_iter=5, n_neighbors=3, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        events, _ = events_of(model.fit, *sample(40))
    steps = [event.done for event in events if event.stage == "solver" and event.total == 5]
    assert steps == list(range(len(steps))) and 1 < len(steps) <= 6


def test_blocks_of_rows_are_counted():
    X, y = sample(MIN_BLOCKS * BLOCK_ROWS + 1)
    model = GEMMEDClassifier(solver=Solver(n_components=30), **KERNEL)
    events, _ = events_of(model.fit, X, y)
    distances = [event for event in events if event.stage == "distances" and event.done]
    assert [(event.done, event.total) for event in distances] == [(k, 9) for k in range(1, 10)]


def test_the_log_has_stages_and_iterations(caplog):
    with caplog.at_level(logging.INFO, "gemmed"):
        GEMMEDClassifier(random_state=0, **KERNEL).fit(*sample())
    assert [r.message for r in caplog.records] == [s for s in STAGES if s != "kernel"]
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "gemmed"):
        GEMMEDClassifier(random_state=0, **KERNEL).fit(*sample())
    assert any(r.message.startswith("solver: 2 of 200, gap ") for r in caplog.records)


def test_a_listener_gets_events_of_its_own_thread_only():
    heard = []
    with listening(heard.append):
        thread = threading.Thread(target=GEMMEDClassifier(**KERNEL).fit, args=sample())
        thread.start()
        thread.join()
        assert not heard
        assert list(reported("distances", "ab", 2)) == ["a", "b"]
    assert [event.done for event in heard] == [1, 2]
    report("solver")
    assert len(heard) == 2


# -- stopping ----------------------------------------------------------------------------------


def test_a_listener_may_end_the_solver():
    model = GEMMEDClassifier(random_state=0, **KERNEL)
    with (
        listening(lambda event: event.stage == "solver" and event.done == 2),
        pytest.warns(ConvergenceWarning),
    ):
        model.fit(*sample())
    assert model.n_iter_ == 2 and not model.converged_
    with pytest.warns(ConvergenceWarning):
        expected = GEMMEDClassifier(solver=Solver(max_iter=2), random_state=0, **KERNEL).fit(
            *sample()
        )
    np.testing.assert_array_equal(model.dual_coef_, expected.dual_coef_)


@pytest.fixture(scope="module")
def fitted():
    """A model, and another of other data."""
    return [GEMMEDClassifier(random_state=0).fit(*data) for data in (sample(), sample(200, 1))]


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_fit_leaves_the_last_one_as_it_was(fitted, stage):
    model, other = deepcopy(fitted)
    explained = model.explain()
    before = dict(vars(model))
    X_other, y_other = sample(200, seed=1)
    with listening(Interrupt(stage)), pytest.raises(KeyboardInterrupt):
        model.fit(X_other[:, :2], np.array(["a", "b"])[y_other])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert explained.equals(model.explain())
    # It can be fitted again as if nothing had been.
    np.testing.assert_array_equal(model.fit(X_other, y_other).dual_coef_, other.dual_coef_)


def test_an_interrupted_first_fit_leaves_nothing():
    model = GEMMEDClassifier()
    before = dict(vars(model))
    with listening(Interrupt("probabilities")), pytest.raises(KeyboardInterrupt):
        model.fit(*sample())
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        model.predict(sample()[0])


def test_an_interrupted_fit_of_blocks_leaves_the_last_one_as_it_was():
    X, y = sample(5000)
    model = GEMMEDClassifier(
        solver=Solver(n_components=40), random_state=0, n_jobs=2, **KERNEL
    ).fit_blocks(X, y)
    expected = model.decision_function(X[:50])
    with listening(Interrupt("solver", 3)), pytest.raises(KeyboardInterrupt):
        model.fit_blocks(X[:, :2].copy(), y)
    np.testing.assert_array_equal(model.decision_function(X[:50]), expected)


@pytest.mark.parametrize("model", [GEMMEDClassifier(), MEDClassifier(), GEMDetector()])
def test_bad_data_leave_the_last_fit_as_it_was(model):
    X, y = sample(60)
    model.fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError):  # noqa: PT011
        model.fit(np.full((60, 2), np.nan), y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_ctrl_c_from_the_terminal():
    """A real signal, during the solver of a second fit."""
    code = """
        import time
        import numpy as np
        from gemmed import GEMMEDClassifier
        from gemmed._core.progress import listening

        rng = np.random.default_rng(0)
        X = rng.normal(size=(1000, 4))
        y = (X[:, 0] > 0).astype(int)
        model = GEMMEDClassifier(random_state=0).fit(X[:200], y[:200])
        expected = model.predict_proba(X)

        def wait_for_signal(event):
            if event.stage == "solver" and event.done == 1:
                print("solving", flush=True)
                time.sleep(30)  # the fit may not end before the signal is here

        try:
            with listening(wait_for_signal):
                model.fit(X, y)
        except KeyboardInterrupt:
            assert len(model.nominal_proba_) == 200, "half a fit"
            np.testing.assert_array_equal(model.predict_proba(X), expected)
            print("clean")
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "solving\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "clean", err


# -- threads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("n_components", [None, 30])
def test_n_jobs_limits_the_threads(n_jobs, n_components):
    X, y = sample(400 if n_components is None else 9000)
    seen = set()

    def count(event):
        seen.add(max(p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"))

    solver = Solver(n_components=n_components)
    with threadpool_limits(2):
        before = threadpool_info()
        with listening(count):
            GEMMEDClassifier(solver=solver, n_jobs=n_jobs, **KERNEL).fit(X, y)
        assert threadpool_info() == before
    # Passes over blocks have threads of our own, beside which BLAS has one; few samples need one.
    assert seen == {1}


@pytest.mark.parametrize(("n_jobs", "n_samples", "wanted"), [(2, 20_000, 2), (2, 5000, 1)])
def test_n_jobs_is_what_a_fit_may_take(n_jobs, n_samples, wanted):
    with blas_threads(n_jobs, n_samples):
        # Of the libraries that a fit uses: other tests may have loaded more of them.
        seen = {p["num_threads"] for p in _controller().info() if p["user_api"] == "blas"}
    assert seen == {wanted}


# -- scikit-learn's callbacks ------------------------------------------------------------------


class Tasks:
    """A callback that writes down what it receives."""

    def __init__(self):
        self.ended, self.open, self.torn_down = [], [], 0

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.open.append(context)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        assert self.open.pop() is context  # tasks are nested
        depth = 0 if context.parent is None else 1 + (context.parent.parent is not None)
        self.ended.append((depth, context.task_name, fitted_estimator))

    def teardown(self, estimator, context):
        self.torn_down += 1


def test_callbacks_of_scikit_learn_get_the_stages():
    pytest.importorskip("sklearn.callback")
    tasks = Tasks()
    model = GEMMEDClassifier(random_state=0).set_callbacks(tasks).fit(*sample())
    assert [name for depth, name, _ in tasks.ended if depth == 1] == list(STAGES)
    assert [name for depth, name, _ in tasks.ended if depth == 2].count("solver") == model.n_iter_
    assert tasks.ended[-1][:2] == (0, "fit") and not tasks.open
    assert tasks.ended[-1][2].score(*sample()) > 0.8
    assert tasks.torn_down == 1


def test_callbacks_of_scikit_learn_are_torn_down_after_an_interrupt():
    pytest.importorskip("sklearn.callback")
    tasks = Tasks()
    model = GEMMEDClassifier(random_state=0).set_callbacks(tasks)
    before = dict(vars(model))
    with listening(Interrupt("solver")), pytest.raises(KeyboardInterrupt):
        model.fit(*sample())
    assert vars(model) == before and tasks.torn_down == 1


def test_a_progress_bar_on_a_grid_search(capsys):
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(GEMMEDClassifier(random_state=0, **KERNEL), {"C": [2.0, 3.0]}, cv=2)
    if not hasattr(search, "set_callbacks"):
        pytest.skip("this scikit-learn has no callbacks for searches")
    search.set_callbacks(callback.ProgressBar()).fit(*sample())
    assert "GEMMEDClassifier" in capsys.readouterr().out
