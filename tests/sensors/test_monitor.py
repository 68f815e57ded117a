"""SensorMonitor: batches and streams agree, faults are found, bad input is refused."""

import copy
import tracemalloc

import numpy as np
import pytest

from gemmed import GemmedWarning
from gemmed._core.exceptions import ModelFileError
from gemmed.sensors import SensorMonitor
from gemmed.sensors.prediction import fit_predictor, windows


def plant(n, seed):
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.95 * factors[t - 1] + 0.3 * rng.normal(size=2)
    mixing = np.random.default_rng(9).normal(size=(2, 6))
    return 10 + factors @ mixing + 0.1 * rng.normal(size=(n, 6))


@pytest.fixture(scope="module")
def monitor():
    return SensorMonitor(false_alarm_rate=0.01, random_state=0).fit(plant(1500, 0))


def test_stream_gives_the_same_answers_as_a_batch(monitor):
    X = plant(300, 1)
    X[100:140, 2] = np.nan
    X[200:, 4] = X[200, 4]
    batch = monitor.judge(X)
    monitor.reset()
    rows = [monitor.update(row) for row in X]
    assert np.allclose(np.concatenate([r.scores for r in rows]), batch.scores, atol=1e-6)
    assert np.allclose(np.concatenate([r.plant_score for r in rows]), batch.plant_score, atol=1e-6)
    assert batch.missing[100:140, 2].all() and batch.missing.sum() == 40


@pytest.mark.parametrize("fault", ["stuck", "stuck with noise", "offset", "noisy"])
def test_faults_raise_an_alarm_of_their_sensor(monitor, fault):
    X, rng = plant(400, 2), np.random.default_rng(0)
    if fault.startswith("stuck"):
        X[200:300, 3] = X[200, 3] + 0.02 * rng.normal(size=100) * ("noise" in fault)
    else:
        X[200:300, 3] += 3.0 if fault == "offset" else 2.0 * rng.normal(size=100)
    alarms = monitor.judge(X).alarms
    assert alarms[232:300, 3].mean() > 0.8
    assert alarms[:200].mean() < 0.1


def test_a_changed_unit_blames_no_other_sensor_where_cells_are_missing(monitor):
    X, rng = plant(400, 2), np.random.default_rng(0)
    X[200:300, 4] = 1.8 * X[200:300, 4] + 32.0
    X[rng.random(X.shape) < 0.03] = np.nan
    strict = copy.copy(monitor).set_params(false_alarm_rate=1e-4)
    spans = [span for span in strict.spans(X) if span.sensor != "plant"]
    assert [(span.sensor, span.kind) for span in spans] == [("5", "scale")]


def test_a_gap_begins_a_new_stretch(monitor):
    X = plant(200, 3)
    order = np.r_[np.arange(100), np.arange(1000, 1100)]
    assert np.array_equal(monitor.judge(X, order=order).scores[100:], monitor.judge(X[100:]).scores)


def test_prediction_is_ridge_regression():
    X, ridge = plant(400, 4), 0.1
    predictor = fit_predictor([X], np.arange(6), (1,), ridge)
    Z = predictor.scaling.of(X)
    W = windows(Z, Z[:1], (1,))
    W = W - W.mean(axis=0)
    others = np.r_[1:6, 7:12]
    gram = W[:, others].T @ W[:, others] / len(W) + ridge * np.eye(10)
    expected = np.linalg.solve(gram, W[:, others].T @ W[:, 0] / len(W))
    assert np.allclose(predictor.coefficients().cross.weights[others, 0], expected)


def test_constant_and_empty_sensors_are_not_judged():
    X = plant(600, 5)
    X[:, 1], X[:, 2] = 3.0, np.nan
    with pytest.warns(GemmedWarning, match="not judged: 2, 3"):
        monitor = SensorMonitor(random_state=0).fit(X)
    found = monitor.judge(X)
    assert not found.scores[:, 1:3].any() and found.missing[:, 2].all()


@pytest.mark.parametrize(
    "settings", [{"false_alarm_rate": 0}, {"window": 2}, {"lags": (0,)}, {"views": [[0, 1], [1]]}]
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SensorMonitor(**settings).fit(plant(300, 0))


def test_too_few_rows_are_refused(monitor):
    with pytest.raises(ValueError, match="200 are needed"):
        SensorMonitor().fit(plant(100, 0))
    with pytest.raises(ValueError, match="6 are expected"):
        monitor.update([1.0])


FAULTS = {
    "stuck": lambda own, rng: own[0] + 0.02 * rng.normal(size=len(own)),
    "drift": lambda own, rng: own + np.linspace(0, 6, len(own)),
    "offset": lambda own, rng: own + 4.0,
    "noisy": lambda own, rng: own + 3.0 * rng.normal(size=len(own)),
    "spikes": lambda own, rng: own + 9.0 * (np.arange(len(own)) % 12 == 0),
    "scale": lambda own, rng: 10 + 3.0 * (own - 10),
    "missing": lambda own, rng: np.full(len(own), np.nan),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_span_names_sensor_and_kind(monitor, kind):
    X = plant(500, 2)
    X[200:320, 3] = FAULTS[kind](X[200:320, 3], np.random.default_rng(0))
    own = [span for span in monitor.spans(X) if span.sensor == "4" and span.n_rows > 30]
    assert [span.kind for span in own] == [kind]
    assert 200 <= own[0].start < 260 and 310 < own[0].stop < 360


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_swapped_sensors_are_both_named(monitor, missing):
    X = plant(500, 2)
    X[200:320, [1, 3]] = X[200:320, [3, 1]]
    X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
    found = {span.sensor for span in monitor.spans(X) if span.kind == "swapped"}
    assert found == {"2", "4"}


def faulty(seed=1):
    X = plant(400, seed)
    X[100:160, 2] = np.nan
    X[200:280, 4] = X[200, 4]
    X[300:360, 0] += 3.0
    return X


def rounded(record):
    return record._replace(score=round(record.score, 6))


def spans_of_events(events):
    return [rounded(event)[1:] for event in events if event.event == "end"]


def test_spans_do_not_depend_on_how_rows_arrive(monitor):
    X, stream = faulty(), monitor.stream()
    said = [event for row in X for event in stream.push(row[None])[1]] + stream.finish()
    blocks = monitor.stream()
    at_once = [e for part in np.split(X, [7, 230]) for e in blocks.push(part)[1]] + blocks.finish()
    assert list(map(rounded, said)) == list(map(rounded, at_once))
    assert [s[:2] + s[3:] for s in map(rounded, monitor.spans(X))] == spans_of_events(said)
    begins = [(e.sensor, e.start) for e in said if e.event == "begin"]
    assert sorted(begins) == sorted((e.sensor, e.start) for e in said if e.event == "end")


def test_a_slow_drift_is_followed_on_request(monitor, tmp_path):
    X = plant(3000, 5)
    X[:, 1] += np.linspace(0.0, 0.6, 3000)
    X[2900:, 3] = X[2900, 3]
    flow, still = monitor.stream(adapt=100), monitor.stream()
    found, events = flow.push(X)
    assert still.push(X)[0].alarms[2000:2900, 1].mean() > 0.9
    assert found.alarms[:2900, 1].mean() < 0.03
    assert found.alarms[2940:, 3].all()
    assert {event.sensor for event in events if event.n_rows > 40} == {"4"}
    again = monitor.stream(adapt=100)
    again.push(X[:1013])
    again.save(tmp_path / "state")
    again = monitor.stream(adapt=100)
    again.load(tmp_path / "state")
    rows = [again.push(row[None])[0] for row in X[1013:1200]]
    assert np.allclose(np.concatenate([r.scores for r in rows]), found.scores[1013:1200], atol=1e-6)
    with pytest.raises(ValueError, match="adapt=3"):
        monitor.stream(adapt=3)


def test_a_stream_goes_on_after_a_restart(monitor, tmp_path):
    X, whole, first = faulty(), monitor.stream(), monitor.stream()
    said = [event for row in X for event in whole.push(row[None])[1]]
    begun = [event for row in X[:230] for event in first.push(row[None])[1]]
    first.save(tmp_path / "state", line=230)
    second = monitor.stream()
    assert second.load(tmp_path / "state") == {"line": 230}
    assert begun + [event for row in X[230:] for event in second.push(row[None])[1]] == said


def test_states_of_other_models_and_other_files_are_refused(monitor, tmp_path):
    other = SensorMonitor(random_state=1).fit(plant(600, 7)).stream()
    other.save(tmp_path / "state")
    with pytest.raises(ModelFileError, match="another model"):
        monitor.stream().load(tmp_path / "state")
    (tmp_path / "text").write_text("no state")
    with pytest.raises(ModelFileError, match="not a file of a stream's state"):
        monitor.stream().load(tmp_path / "text")


def test_a_gap_ends_faults():
    order = np.arange(1500.0)
    timed = SensorMonitor(false_alarm_rate=0.01, random_state=0).fit(plant(1500, 0), order=order)
    X = faulty()
    times = np.r_[np.arange(250.0), np.arange(400.0, 550.0)]
    stream = timed.stream()
    ended = [event for event in stream.push(X, times)[1] if event.event == "end"]
    assert ("5", 249.0) in [(event.sensor, event.time) for event in ended]
    spans = map(rounded, timed.spans(X, order=times))
    assert [s[:2] + s[3:] for s in spans] == spans_of_events(ended + stream.finish())


def test_memory_of_a_stream_is_constant(monitor):
    X, stream = plant(500, 8), monitor.stream()
    for row in X[:100]:
        stream.push(row[None])
    tracemalloc.start()
    stream.push(X[:1])
    before = tracemalloc.get_traced_memory()[0]
    for row in X[100:]:
        stream.push(row[None])
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_a_saved_monitor_gives_the_same_answers(monitor, tmp_path):
    pytest.importorskip("skops")
    from gemmed import load_model, save_model

    save_model(monitor, tmp_path / "plant.gemmed")
    same = load_model(tmp_path / "plant.gemmed")
    X = faulty()
    assert same.spans(X) == monitor.spans(X)
    assert np.array_equal(same.judge(X).scores, monitor.judge(X).scores)


def test_other_sensors_have_no_alarms_while_one_is_missing(monitor):
    X = plant(800, 12)
    others = [0, 1, 3, 4, 5]
    before = monitor.judge(X).alarms[:, others].mean()
    X[100:700, 2] = np.nan
    found = monitor.judge(X)
    assert found.alarms[103:700, 2].all()
    assert found.alarms[:, others].mean() < before + 0.01
