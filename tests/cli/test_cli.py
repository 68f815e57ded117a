"""The command line: help, one-line errors with exit code 2, output that can be piped."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from gemmed import __version__
from gemmed.cli import main


def run(*arguments):
    """The command as a user would run it."""
    return subprocess.run(
        [sys.executable, "-m", "gemmed", *arguments], capture_output=True, text=True, check=False
    )


def assert_one_line_error(code, captured, *words):
    assert code == 2
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("gemmed: error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("option", ["--model", "--engine", "--coverage", "--entropy-slack"])
def test_options_of_the_paper_s_model_name_its_class(option, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["fit", "t.csv", "--target", "y", "--out", "m", option, "1"])
    captured = capsys.readouterr()
    assert_one_line_error(stopped.value.code, captured, option, "gemmed.paper.GEMMEDClassifier")
    assert "did you mean" not in captured.err


def test_version_and_help(capsys):
    assert run("--version").stdout.strip() == f"gemmed {__version__}"
    for command in (["reproduce"], ["simulate", "ring"]):
        with pytest.raises(SystemExit, match="0"):
            main([*command, "--help"])
        assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "nothing"], ["unknown target 'nothing'", "boundary"]),
        (["reproduce", "noise", "--runs", "0"], ["runs=0"]),
        (["reproduce", "noise", "--jobs", "0"], ["--jobs: 0 must be at least 1"]),
        (["reproduce", "noise", "--runs", "many"], ["--runs", "many"]),
        (["reproduce", "noise", "--out", "/dev/null/folder"], ["/dev/null/folder", "--out"]),
        (["reproduce"], ["TARGET"]),
        (["nonsense"], ["nonsense"]),
        ([], ["COMMAND"]),
        (["simulate", "ring"], ["--out"]),
        (["simulate", "ring", "--out", "/dev/null/ring.csv"], ["/dev/null/ring.csv"]),
        (["simulate", "ring", "--out", "x.csv", "--corruption", "2"], ["corruption=2.0"]),
        (["simulate", "ring", "--out", "x.csv", "--radius", "nan"], ["radius=nan"]),
        (
            ["simulate", "ring", "--out", "x.csv", "--seed", "-1"],
            ["--seed: -1 must be between 0 and 4294967295"],
        ),
        (["simulate", "ring", "--out", "/dev/null"], ["not a regular file"]),
        (["reproduce", "noise", "--out", ""], ["--out"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = stop.code
    assert_one_line_error(code, capsys.readouterr(), *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["rich", "matplotlib"])
def test_missing_extras_are_named_with_the_command(missing, capsys, tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    code = main(["reproduce", "boundary", "--out", str(tmp_path)])
    assert_one_line_error(code, capsys.readouterr(), missing, "pip install")


def test_simulated_ring_can_be_read_back(tmp_path, capsys):
    path = tmp_path / "ring.csv"
    assert main(["simulate", "ring", "--out", str(path), "--test-per-class", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"anomalous": 40, "file": str(path), "rows": 210}
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 210
    assert sum(row["anomalous"] == "1" for row in rows) == 40
    assert {row["part"] for row in rows} == {"train", "test"}


def test_json_summary_can_be_piped(tmp_path, capsys):
    assert main(["reproduce", "intro", "sets", "--out", str(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    summary = json.loads(captured.out)
    assert [entry["target"] for entry in summary] == ["intro", "sets"]
    for entry in summary:
        for name in entry["files"]:
            assert (tmp_path / name).stat().st_size > 0


def test_the_command_line_starts_without_loading_scikit_learn():
    """So that help is instant, and an interrupt meets code that handles it."""
    code = "import sys, gemmed.cli; print({'sklearn', 'numpy', 'asyncio'} & set(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_end_from_outside_is_an_interrupt(number, capsys, monkeypatch):
    def struck(options):
        os.kill(os.getpid(), number)
        time.sleep(10)  # the signal arrives here at the latest

    monkeypatch.setattr("gemmed.cli.audit.run", struck)
    before = signal.getsignal(number)
    try:
        assert main(["audit", "t.csv", "--target", "y"]) == 130
    finally:
        signal.signal(number, before)
    assert capsys.readouterr().err.startswith("gemmed: interrupted; the same command starts again")


def test_a_closed_pipe_is_not_an_error(tmp_path):
    result = subprocess.run(
        f"{sys.executable} -m gemmed simulate ring --out {tmp_path / 'r.csv'} | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in result.stderr
