"""make demo does its job: a better error than SVM and MED, and a picture."""

import importlib.util
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_demo_prints_errors_and_writes_the_picture(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    picture = tmp_path / "demo.png"
    assert demo.main(["--out", str(picture)]) == 0
    errors = {}
    for line in capsys.readouterr().out.splitlines():
        if line.endswith(" %"):
            name, value = line[:-2].strip().rsplit(maxsplit=1)
            errors[name] = float(value)
    assert errors["GEM-MED"] < min(errors["SVM"], errors["MED"])
    assert errors["GEM-MED"] < errors["oracle (MED, clean samples only)"] + 2
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in tmp_path.iterdir()] == ["demo.png"]
