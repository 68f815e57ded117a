"""make demo does its job: faults found in a table and a recording, a better error, a picture."""

import importlib.util
import re
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_demo_prints_what_it_finds_and_writes_the_picture(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    picture = tmp_path / "demo.png"
    assert demo.main(["--out", str(picture)]) == 0
    printed = capsys.readouterr().out
    errors = dict(re.findall(r"test error (.+?)  +([\d.]+) %", printed))
    errors = {name: float(value) for name, value in errors.items()}
    assert errors["GEM-MED"] < min(errors["SVM"], errors["MED"])
    assert errors["GEM-MED"] < errors["oracle (MED, clean samples only)"] + 2
    found = re.findall(
        r"(wrong labels|bad measurements) +(\d+) of (\d+) found, (\d+) false", printed
    )
    for _, hits, total, false in found:
        assert int(hits) > 0.7 * int(total) and int(false) < 0.2 * int(total)
    assert len(found) == 2
    assert "really: sensor 1" in printed and "found:  sensor 1" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["demo.png"]
