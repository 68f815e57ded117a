"""Measured tables of the site: every one is used once, and says where it comes from."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

import gemmed

ROOT = Path(__file__).parents[1]
FILES = {path.stem: path for path in (ROOT / "docs" / "figures").glob("*.json")}
FIELDS = {"title", "command", "version", "date", "columns", "rows"}


def test_every_table_is_shown_once():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    shown = re.findall(r"^```\{figures\} (\S+)$", "\n".join(pages), re.MULTILINE)
    assert sorted(shown) == sorted(FILES)


def test_tables_name_command_version_and_date():
    for name, path in FILES.items():
        found = json.loads(path.read_text(encoding="utf-8"))
        assert set(found) == FIELDS, name
        assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev0)?", found["version"]), name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]), name
        assert all(len(row) == len(found["columns"]) for row in found["rows"]), name
        for script in re.findall(r"python (\S+\.py)", found["command"]):
            assert (ROOT / script).is_file(), (name, script)


def test_a_table_of_an_earlier_version_says_so():
    spec = importlib.util.spec_from_file_location(
        "figures_of_the_site", ROOT / "docs" / "_extensions" / "figures.py"
    )
    pytest.importorskip("docutils", reason="a dependency of the site")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figures = {"version": "0.1.0", "date": "2026-11-15"}
    assert "an earlier version than 0.2.0" in module.origin(figures, "0.2.0")
    assert "earlier" not in module.origin(figures | {"version": "0.2.0"}, "0.2.0")


def test_written_tables_have_the_present_version(tmp_path, monkeypatch):
    import figures

    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.write_figures("made", "A title", ("a", "b"), [(1, 2.5)], "python made.py")
    found = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
    assert set(found) == FIELDS
    assert found["version"] == gemmed.__version__ and found["rows"] == [["1", "2.5"]]


def test_rows_are_replaced_by_a_printed_table(tmp_path, monkeypatch):
    import figures

    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    figures.write_figures("made", "A title", ("a", "b"), [(1, 2)], "python made.py")
    for text in ("read\n| a | b |\n|---|---|\n| 3 | |\n", "| 3 |  |\n"):
        figures.replace_rows("made", text)
        found = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
        assert found["rows"] == [["3", ""]] and found["title"] == "A title"
    with pytest.raises(SystemExit, match="no row"):
        figures.replace_rows("made", "nothing\n")
