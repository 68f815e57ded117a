"""gemmed watch: CSV and JSON lines, restart after kill -9, one-line errors."""

import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from gemmed.cli import main
from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("skops")

NAMES = ["pump_x", "pump_y", "valve", "tank", "flow"]


def readings(n, seed):
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.9 * factors[t - 1] + 0.4 * rng.normal(size=2)
    mixing = np.random.default_rng(9).normal(size=(2, 5))
    table = pd.DataFrame(10 + factors @ mixing + 0.1 * rng.normal(size=(n, 5)), columns=NAMES)
    start = np.datetime64("2026-01-01T00:00:00")
    table.insert(0, "time", [str(start + np.timedelta64(i, "s")) for i in range(n)])
    return table.round(4)


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    """normal.csv, today.csv with a stuck and a missing sensor, and the model plant.gemmed."""
    folder = tmp_path_factory.mktemp("plant")
    readings(1200, 0).to_csv(folder / "normal.csv", index=False)
    today = readings(600, 1)
    today.loc[200:279, "valve"] = today.loc[200, "valve"]
    today.loc[400:449, "tank"] = np.nan
    today.to_csv(folder / "today.csv", index=False)
    today.to_json(folder / "today.jsonl", orient="records", lines=True)
    normal, model = str(folder / "normal.csv"), str(folder / "plant.gemmed")
    command = ["watch", str(folder / "today.csv"), "--normal", normal, "--order", "time"]
    assert main([*command, "--prefix", "_", "--save", model]) == 0
    return folder


def events(text):
    return [json.loads(line) for line in text.splitlines()]


def watch(capsys, *arguments):
    code, out, err = call(capsys, "watch", *arguments, "--json")
    assert code == 0, err
    return events(out)


def test_faults_are_named_with_times_and_kinds(plant, capsys):
    found = watch(capsys, plant / "today.csv", "--model", plant / "plant.gemmed")
    ended = {e["sensor"]: e for e in found if e["event"] == "end" and e["n_rows"] > 30}
    ended.pop("plant")
    assert {name: e["kind"] for name, e in ended.items()} == {"valve": "stuck", "tank": "missing"}
    assert "2026-01-01T00:03:20" <= ended["valve"]["start"] < "2026-01-01T00:04:00"
    assert {e["sensor"] for e in found} <= {"pump", "valve", "tank", "flow", "plant"}


def test_json_lines_and_semicolons_give_the_same(plant, capsys, tmp_path):
    expected = watch(capsys, plant / "today.csv", "--model", plant / "plant.gemmed")
    assert watch(capsys, plant / "today.jsonl", "--model", plant / "plant.gemmed") == expected
    table = pd.read_csv(plant / "today.csv")
    table.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    assert watch(capsys, tmp_path / "t.csv", "--model", plant / "plant.gemmed") == expected


def test_pipe_gives_the_same_row_by_row(plant, capsys, monkeypatch):
    expected = watch(capsys, plant / "today.csv", "--model", plant / "plant.gemmed")
    content = io.BytesIO((plant / "today.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    assert watch(capsys, "-", "--model", plant / "plant.gemmed") == expected


def test_rows_are_printed_on_request(plant, capsys):
    arguments = [plant / "today.csv", "--model", plant / "plant.gemmed", "--rows"]
    rows = [e for e in watch(capsys, *arguments) if e["event"] == "row"]
    assert len(rows) == 600 and "valve" in rows[260]["alarms"]
    code, out, _ = call(capsys, "watch", *arguments)
    assert code == 0 and "sensor valve: stuck" in out


def test_a_lower_rate_of_false_alarms_gives_fewer_alarms(plant, capsys):
    arguments = [plant / "today.csv", "--model", plant / "plant.gemmed", "--rows"]

    def alarms(rate):
        found = watch(capsys, *arguments, "--false-alarms", rate)
        return sum(len(e["alarms"]) for e in found if e["event"] == "row")

    assert alarms("200") > alarms("20") > alarms("2/day") > 0


def test_the_stream_goes_on_after_kill_9(plant, capsys, monkeypatch, tmp_path):
    """Events of a run that is killed and started again are those of a run in one piece."""
    model, state = plant / "plant.gemmed", tmp_path / "state"
    expected = watch(capsys, plant / "today.csv", "--model", model, "--state", tmp_path / "whole")
    lines = (plant / "today.csv").read_text().splitlines(keepends=True)
    command = [sys.executable, "-m", "gemmed", "watch", "-", "--model", model, "--state", state]
    first = subprocess.Popen(
        [*command, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    first.stdin.writelines(lines[:261])
    first.stdin.flush()
    said = first.stdout.readline()  # the valve is stuck
    deadline = time.monotonic() + 60
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    said += first.stdout.read()
    first.wait()
    first.stdin.close()
    first.stdout.close()
    assert state.exists()
    # The log is sent again from its beginning: what the state knows is skipped.
    content = io.BytesIO("".join(lines).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    found = events(said) + watch(capsys, "-", "--model", model, "--state", state)
    assert [e for i, e in enumerate(found) if e not in found[:i]] == expected


def test_a_file_that_has_grown_goes_on_where_it_ended(plant, capsys, tmp_path):
    lines = (plant / "today.csv").read_text().splitlines(keepends=True)
    arguments = [tmp_path / "log.csv", "--model", plant / "plant.gemmed", "--state"]
    found = []
    for end in (150, 260, len(lines)):
        (tmp_path / "log.csv").write_text("".join(lines[:end]))
        found += watch(capsys, *arguments, tmp_path / "grown")
    assert found == watch(capsys, *arguments, tmp_path / "once")


def test_cells_and_rows_that_cannot_be_read(plant, capsys, tmp_path):
    lines = (plant / "today.csv").read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].split(",")[3], "broken")
    lines[7] += ",1,2"
    lines[9] = "yesterday" + lines[9][19:]
    lines[11] = '"' + lines[11]  # would be open to the end of the file
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    code, _, err = call(capsys, "watch", tmp_path / "t.csv", "--model", plant / "plant.gemmed")
    assert code == 0
    for words in ("'broken' is no number", "row 7 has 8 cells", "'yesterday', which is none"):
        assert words in err
    assert "row 11 has 1 cells" in err
    assert "3 rows could not be read" in err


def test_a_number_too_large_for_a_float_does_not_end_the_watch(plant, capsys, tmp_path):
    lines = (plant / "today.jsonl").read_text().splitlines()
    row = json.loads(lines[4])
    lines[4] = json.dumps({**row, "valve": 10**400})
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    code, _, err = call(capsys, "watch", tmp_path / "t.jsonl", "--model", plant / "plant.gemmed")
    assert code == 0, err
    assert "is no number and counts as missing" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--normal", "--model"]),
        (["--normal", "NORMAL", "--order", "tme"], ["'tme'", "did you mean", "time"]),
        (["--normal", "NORMAL", "--order", "time", "--sensor", "a=x"], ["'x'", "--sensor a"]),
        (["--normal", "NORMAL", "--sensor", "a"], ["NAME=COLUMN"]),
        (["--normal", "NORMAL", "--false-alarms", "2/day"], ["--order"]),
        (["--normal", "NORMAL", "--false-alarms", "often"], ["per thousand rows"]),
        (["--model", "MODEL", "--drop", "flow"], ["--drop", "--normal"]),
        (["--model", "MODEL", "--state", "MODEL"], ["--state"]),
    ],
)
def test_bad_options_are_one_line(plant, capsys, arguments, words):
    names = {"NORMAL": plant / "normal.csv", "MODEL": plant / "plant.gemmed"}
    line = refusal(capsys, "watch", plant / "today.csv", *[names.get(a, a) for a in arguments])
    for word in words:
        assert word in line


def test_an_absent_sensor_is_missing_and_others_are_judged(plant, capsys, tmp_path):
    table = pd.read_csv(plant / "today.csv")
    table.drop(columns="tank").to_csv(tmp_path / "t.csv", index=False)
    code, out, err = call(capsys, "watch", tmp_path / "t.csv", "--model", plant / "plant.gemmed")
    assert code == 0 and "has no column 'tank'" in err
    assert "begin  sensor tank: missing" in out


def test_a_stream_without_any_column_of_the_model_is_refused(plant, capsys, tmp_path):
    (tmp_path / "t.csv").write_text("other\n1\n")
    line = refusal(capsys, "watch", tmp_path / "t.csv", "--model", plant / "plant.gemmed")
    assert "no column of the model" in line


def test_slow_drift_is_normal_on_request(plant, capsys):
    command = [str(plant / "today.csv"), "--model", str(plant / "plant.gemmed")]
    assert watch(capsys, *command, "--adapt", "2000")
    assert "adapt=3" in refusal(capsys, "watch", *command, "--adapt", "3")
