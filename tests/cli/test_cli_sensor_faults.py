"""gemmed sensors: spans of a table as text, CSV and JSON, and the timeline."""

import json
import re

import numpy as np
import pytest

from patients import call, refusal

pd = pytest.importorskip("pandas")
pytest.importorskip("jinja2")


def readings(n, seed):
    rng = np.random.default_rng(seed)
    factors = np.zeros((n, 2))
    for t in range(1, n):
        factors[t] = 0.9 * factors[t - 1] + 0.4 * rng.normal(size=2)
    X = 10 + factors @ np.random.default_rng(9).normal(size=(2, 6)) + 0.1 * rng.normal(size=(n, 6))
    table = pd.DataFrame(X, columns=["a.x", "a.y", "b", "c", "d", "e"])
    table.insert(0, "minute", 2 * np.arange(n))
    table["remark"] = "fine"
    return table


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    readings(1200, 0).to_csv(folder / "normal.csv", index=False)
    today = readings(500, 1)
    today.loc[200:299, "a.y"] = today.loc[200, "a.y"]
    today.loc[350:429, "c"] += 4.0
    today.to_csv(folder / "today.csv", index=False)
    return folder


def command(tables, *arguments):
    return [
        "sensors",
        tables / "today.csv",
        "--normal",
        tables / "normal.csv",
        "--order",
        "minute",
        *arguments,
    ]


def long_faults(records):
    return {(r["sensor"], r["kind"]) for r in records if r["rows"] > 40 and r["sensor"] != "plant"}


def test_spans_as_text_csv_and_json(tables, capsys, tmp_path):
    out = tmp_path / "spans.csv"
    code, text, err = call(capsys, *command(tables, "--prefix", ".", "--out", out))
    assert code == 0 and "columns with text are no sensors: remark" in err
    spans = pd.read_csv(out)
    assert long_faults(spans.to_dict("records")) == {("a", "stuck"), ("c", "offset")}
    stuck = spans[(spans.sensor == "a") & (spans.rows > 40)].iloc[0]
    assert 400 <= stuck.start < 460 and 590 < stuck.stop < 670
    assert "stuck" in text and str(out) in text
    out = tmp_path / "spans.json"
    code, text, _ = call(capsys, *command(tables, "--prefix", ".", "--out", out, "--json"))
    assert code == 0 and json.loads(out.read_text()) == json.loads(text)["faults"]
    assert spans.to_dict("records") == json.loads(out.read_text())


def test_named_sensors_use_their_columns_only(tables, capsys):
    named = ["--sensor", "pump=a.x,a.y", "--sensor", "rest=b,d,e"]
    code, text, _ = call(capsys, *command(tables, *named, "--json"))
    assert code == 0
    assert {r["sensor"] for r in json.loads(text)["faults"]} <= {"pump", "rest", "plant"}


def test_report_shows_every_sensor_and_fault(tables, capsys, tmp_path):
    page = tmp_path / "page.html"
    code, text, _ = call(capsys, *command(tables, "--report", page, "--json"))
    assert code == 0
    html, faults = page.read_text(), json.loads(text)["faults"]
    for name in ("a.x", "a.y", "b", "c", "d", "e"):
        assert f'aria-label="readings of {name}"' in html
    assert len(re.findall(r"<tr><td>", html)) == len(faults)
    assert re.search(r"rate that the normal rows guarantee\s*</\w+>\s*<\w+>\d+\.\d\d %", html)
    assert "http" not in html and "<script" not in html


def test_names_in_the_report_are_escaped(tables, capsys, tmp_path):
    for name in ("normal.csv", "today.csv"):
        table = pd.read_csv(tables / name).rename(columns={"c": "<img src=x onerror=alert(1)>'"})
        table.to_csv(tmp_path / name, index=False)
    page = tmp_path / "page.html"
    code, _, _ = call(capsys, *command(tmp_path, "--report", page))
    assert code == 0 and "<img" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "TABLE"], ["file to read"]),
        (["--report", "-"], ["--report"]),
        (["--out", "-", "--json"], ["--json"]),
        (["--sensor", "a=b", "--prefix", "."], ["--sensor", "--prefix"]),
        (["--sensor", "a=b", "--sensor", "c=b"], ["'b'", "two uses"]),
        (["--window", "2"], ["window=2"]),
    ],
)
def test_bad_options_are_one_line(tables, capsys, arguments, words):
    chosen = [tables / "today.csv" if a == "TABLE" else a for a in arguments]
    line = refusal(capsys, *command(tables, *chosen))
    for word in words:
        assert word in line
