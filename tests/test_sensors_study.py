"""gemmed reproduce sensors on small folders in the formats of SensIT, SKAB and FSDD."""

import json

import numpy as np
import pytest

from gemmed._core.exceptions import ExperimentDataError
from gemmed.acoustics import write_audio
from studies import Options
from studies.recordings.runs import DIGITS
from studies.sensors import channels, comparison, vehicles, water
from studies.sensors.target import sensors_target

NAMES = ("Current", "Pressure", "Flow")


def run_of_the_circuit(path, seed):
    """Three sensors that move together; the last one is off for 60 seconds."""
    rng = np.random.default_rng(seed)
    common = 0.3 * np.cumsum(rng.normal(size=500)) / np.sqrt(500)
    values = common[:, None] + rng.normal(size=(500, len(NAMES)))
    truth = np.zeros(500)
    truth[200:260] = 1.0
    values[200:260, 2] += 8.0
    lines = [";".join(["datetime", *NAMES, "anomaly", "changepoint"])]
    lines += [
        ";".join([f"2020-03-01 15:{i // 60:02d}:{i % 60:02d}", *map(str, row), str(flag), "0.0"])
        for i, (row, flag) in enumerate(zip(values, truth, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("real")
    rng = np.random.default_rng(0)
    (path / vehicles.FOLDER).mkdir()
    nodes = {}
    for node in ("f_0", "f_1"):
        y = rng.choice([-1, 1], size=110)
        X = rng.normal(size=(110, 12)) + 0.8 * y[:, None]
        nodes[node] = {"x": X.tolist(), "y": y.tolist()}
    (path / vehicles.FOLDER / vehicles.FILE).write_text(json.dumps({"user_data": nodes}))
    (path / water.FOLDER).mkdir()
    for number in range(6):
        run_of_the_circuit(path / water.FOLDER / f"valve-{number}.csv", number)
    recordings = path / channels.FOLDER / "recordings"
    recordings.mkdir(parents=True)
    for digit in DIGITS:
        for speaker in range(6):
            for take in range(4):
                time = np.arange(4000) / 8000
                tone = np.sin(
                    2 * np.pi * (400 if digit == "3" else 700) * (1 + 0.02 * speaker) * time
                )
                signal = 0.3 * tone + 0.02 * rng.normal(size=len(time))
                write_audio(recordings / f"{digit}_s{speaker}_{take}.wav", signal, 8000)
    return path


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(vehicles, "N_TRAIN", 120)
    monkeypatch.setattr(water, "N_HEALTHY", 160)
    monkeypatch.setattr(water, "N_UNITS", 80)
    monkeypatch.setattr(comparison, "FOLDS", 3)


def test_failures_are_of_one_type_and_reported(folder):
    """The truth is where the readings changed, and nowhere else."""
    X, y = vehicles.vehicles(str(folder))
    assert X.shape == (220, 12)
    assert set(y) == {0, 1}
    for kind in vehicles.FAILURE_KINDS:
        blocks, broken = vehicles.fail(X, kind, np.random.default_rng(1))
        changed = np.column_stack(
            [
                (own != part).any(axis=1)
                for own, part in zip(blocks, np.split(X, 2, axis=1), strict=True)
            ]
        )
        # A type may be stuck at the very reading of a sample.
        assert np.sum(changed != broken) <= (kind == "stuck") * 2
        assert broken.sum(axis=1).max(initial=0) <= 1
        assert (broken.mean() > 0.1) == (kind != "none")


def test_vehicles_with_a_missing_type(folder, small):
    """What is missing is known: every method with views answers alike."""
    methods = vehicles.evaluate_vehicles(str(folder), "missing", 0)["methods"]
    assert tuple(methods) == comparison.METHODS
    assert methods["views"] == methods[comparison.ORACLE]
    assert abs(methods[comparison.REFERENCE]["accuracy"] - methods["views"]["accuracy"]) <= 4.0
    assert methods[comparison.REFERENCE]["accuracy"] > 80.0


def test_water_finds_the_sensor(folder, small):
    """Units come from the beginning; the broken sensor is the third."""
    found = water.evaluate_water(str(folder), 0)
    assert tuple(found["methods"]) == water.METHODS
    own = found["methods"]["GEM-MED alone"]
    assert own["event_recall"] == 100.0
    assert own["auc"] > 90.0
    shares = found["sensors_during_faults"]["GEM-MED"]
    assert shares["3"] > 0.8
    assert max(shares["1"], shares["2"]) < 0.4


def test_events_are_counted_as_wholes():
    """Two events, one found by a tenth of its seconds; false alarms start once."""
    truth = np.zeros(100, dtype=bool)
    truth[20:40] = truth[60:80] = True
    alarms = np.zeros(100, dtype=bool)
    alarms[25:28] = alarms[60] = alarms[90:95] = True
    found = water._measures(alarms, alarms.astype(float), truth, np.zeros(100, dtype=int))
    assert found["event_recall"] == 50.0
    assert found["false_alarms"] == pytest.approx(100 * 5 / 60)
    assert found["false_alarms_an_hour"] == pytest.approx(3600 / 60)


def test_sound_with_broken_channels(folder, small):
    """Speakers of the test are not trained on; three channels, some broken."""
    methods = channels.evaluate_channels(str(folder), 0)["methods"]
    assert tuple(methods) == comparison.METHODS
    assert all(0.0 <= own["accuracy"] <= 100.0 for own in methods.values())
    assert "accuracy_with_a_broken_sensor" in methods[comparison.REFERENCE]


def test_the_target_takes_what_the_folder_holds(folder, tmp_path):
    """Tasks of all three collections; one of them alone is enough, none is refused."""
    target = sensors_target(Options(data=str(folder)))
    names = [task.name for task in target.tasks(2)]
    assert len(names) == len(set(names)) == 2 * len(vehicles.FAILURE_KINDS) + 1 + 2
    (tmp_path / water.FOLDER).mkdir()
    alone = sensors_target(Options(data=str(tmp_path)))
    assert [task.name for task in alone.tasks(2)] == ["sensors/water"]
    with pytest.raises(ExperimentDataError, match="needs data"):
        sensors_target(Options())
    with pytest.raises(ExperimentDataError, match="holds none of"):
        sensors_target(Options(data=str(tmp_path / water.FOLDER)))


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / vehicles.FOLDER).mkdir()
    (tmp_path / vehicles.FOLDER / vehicles.FILE).write_text("[]")
    with pytest.raises(ExperimentDataError, match="cannot read"):
        vehicles.vehicles(str(tmp_path))
    (tmp_path / "run.csv").write_text("datetime;a\n1;2\n")
    with pytest.raises(ExperimentDataError, match="cannot read"):
        water.read_run(tmp_path / "run.csv")
