"""gemmed fit and predict of labelled tables whose columns are sensors."""

import json

import numpy as np
import pytest

from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three sensors of two columns; ``south`` is stuck from row 150 to 179."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 2, 15), 20)
    X = rng.normal(size=(300, 6)) + 1.5 * y[:, None]
    X[150:180, 2:4] = 6.0
    names = ["north_x", "north_y", "south_x", "south_y", "west_x", "west_y"]
    frame = pd.DataFrame(X, columns=names)
    frame.insert(0, "time", pd.date_range("2026-03-01", periods=300, freq="10s").astype(str))
    frame["state"] = np.where(y == 1, "run", "idle")
    path = tmp_path_factory.mktemp("labelled") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table):
    from gemmed.cli.main import main

    out = table.parent / "m.gemmed"
    spans = ["--spans", str(table.parent / "spans.json")]
    columns = ["--target", "state", "--prefix", "_", "--order", "time"]
    assert main(["fit", str(table), *columns, "--out", str(out), *spans]) == 0
    return out


def is_stuck(span):
    return (
        span["sensor"] == "south"
        and span["start"] == "2026-03-01T00:25:00"
        and span["stop"] == "2026-03-01T00:29:50"
    )


def test_the_fit_writes_when_a_sensor_is_broken(table, model):
    spans = json.loads((table.parent / "spans.json").read_text())
    assert any(map(is_stuck, spans))


def test_predictions_name_broken_sensors(table, model, capsys, tmp_path):
    out, spans = tmp_path / "p.csv", tmp_path / "spans.csv"
    code, _, err = call(capsys, "predict", model, table, "--out", out, "--spans", spans, "--proba")
    assert code == 0 and "broken: sensor south" in err
    found = pd.read_csv(out)
    assert (found["broken_south"][150:180] > 0.5).all()
    assert (found["broken_south"][:150] > 0.5).mean() < 0.05
    assert (found["prediction"] == found["state"]).mean() > 0.95
    np.testing.assert_allclose(found["proba_idle"] + found["proba_run"], 1.0)
    assert any(map(is_stuck, pd.read_csv(spans).to_dict("records")))


def test_an_absent_sensor_does_not_vote(table, model, capsys, tmp_path):
    pd.read_csv(table).drop(columns=["south_x", "south_y"]).to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call(capsys, "predict", model, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert code == 0 and "'south_x', 'south_y'" in err
    found = pd.read_csv(tmp_path / "p.csv")
    assert (found["prediction"] == found["state"]).mean() > 0.9


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--sensors", "together"], "--sensor NAME=COLUMN"),
        (["--order", "time"], "--order needs --sensor or --prefix"),
        (["--sensor", "a=north_x", "--prefix", "_"], "exclude each other"),
        (["--sensor", "a=state"], "two uses"),
        (["--sensor", "a=nothing"], "no column 'nothing'"),
        (["--prefix", "_", "--stream"], "needs the whole table"),
    ],
)
def test_bad_options_are_one_line(table, capsys, tmp_path, arguments, word):
    line = refusal(
        capsys, "fit", table, "--target", "state", "--out", tmp_path / "m.gemmed", *arguments
    )
    assert word in line


def test_screening_is_refused_with_a_reason(table, model, capsys):
    assert "broken_SENSOR" in refusal(capsys, "predict", model, table, "--screen", "0.05")


def test_audit_lists_wrong_labels_and_broken_sensors(table, capsys, tmp_path):
    frame = pd.read_csv(table)
    changed = [40, 100, 250]
    frame.loc[changed, "state"] = frame.loc[changed, "state"].map({"run": "idle", "idle": "run"})
    frame.insert(1, "number", np.arange(300) + 1000)
    frame.to_csv(tmp_path / "t.csv", index=False)
    out, spans, page = (tmp_path / name for name in ("out.csv", "spans.csv", "page.html"))
    columns = ["--target", "state", "--prefix", "_", "--order", "time", "--id", "number"]
    written = ["--out", out, "--spans", spans, "--html", page]
    code, said, _ = call(capsys, "audit", tmp_path / "t.csv", *columns, *written)
    assert code == 0
    assert "sensor south" in said and "suspicious label" in said and str(page) in said
    found = pd.read_csv(out)
    wrong = found[found["verdict"].isin(["suspicious label", "both"])]
    assert set(wrong["row"]) >= {row + 1 for row in changed} and len(wrong) < 12
    assert (wrong["suggested_label"] != wrong["label"]).all()
    stuck = found[found["row"].between(151, 180)]
    assert (stuck["sensors"] == "south").sum() >= 28
    assert (found["number"] == found["row"] + 999).all()
    assert found["time"].iloc[0].startswith("2026-03-01T")
    assert (pd.read_csv(spans)["sensor"] == "south").any()
    text = page.read_text()
    for name in ("north", "south", "west", "broken", "idle → run", "2026-03-01T00:25:00"):
        assert name in text
    assert "plant" not in text.split("<h2>All sensors</h2>")[1].split("</section>")[0]


def test_audit_as_json_has_faults_and_threshold_chooses_rows(table, capsys):
    columns = ["--target", "state", "--prefix", "_", "--order", "time"]
    code, said, _ = call(capsys, "audit", table, *columns, "--json", "--threshold", "0.9")
    assert code == 0
    found = json.loads(said)
    assert any(map(is_stuck, found["faults"]))
    assert all(record["anomaly_score"] > 0.9 for record in found["suspicious"])
    assert found["sensors"]["south"]["share"] > found["sensors"]["north"]["share"]


def test_times_that_cannot_be_subtracted_are_refused(table, capsys, tmp_path):
    path = tmp_path / "t.csv"
    frame = pd.read_csv(table)
    frame["time"] = np.where(np.arange(len(frame)) % 2 == 0, -1e308, 1e308)
    frame.to_csv(path, index=False)
    columns = ["--target", "state", "--prefix", "_", "--order", "time"]
    assert "order[0]=-1e+308 is too large" in refusal(capsys, "audit", path, *columns)


def test_an_empty_prefix_is_refused(table, capsys):
    assert "--prefix '' is no mark" in refusal(
        capsys, "audit", table, "--target", "state", "--prefix", ""
    )


@pytest.mark.parametrize("option", ["--each", "--plan"])
def test_audit_refuses_what_has_no_meaning_for_sensors(table, capsys, option):
    columns = ["--target", "state", "--prefix", "_"]
    error = refusal(capsys, "audit", table, *columns, option, "5")
    assert f"{option} has no meaning with several sensors" in error
