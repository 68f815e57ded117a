"""The page of what can be relied on: every promise names tests, and they exist."""

import json
import re
from pathlib import Path

import pytest

from attack.faults import FAULTS
from attack.run import targets

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
PROMISED = PAGE.split("## Promised")[1].split("\n## ")[0]
LINES = [line.strip("|") for line in PROMISED.splitlines() if line.startswith("| ")][1:]
ROWS = [[cell.strip() for cell in line.split("|")] for line in LINES]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PROMISED)))
GROUPS = {*targets(), *FAULTS, "estimators"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_promise_is_held_by_a_test(row):
    assert len(row) == 3, "what, scope, held by"
    assert "`tests/" in row[2]


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_tests_exist(path, name):
    assert (ROOT / path).is_file()
    if name:
        assert re.search(rf"def {name}\(", (ROOT / path).read_text(encoding="utf-8"))


def test_the_groups_exist_and_all_have_figures():
    assert set(re.findall(r"group `([\w-]+)`", PROMISED)) <= GROUPS
    tables = [
        json.loads((ROOT / "docs" / "figures" / f"reliability-{name}.json").read_text("utf-8"))
        for name in ("files", "faults")
    ]
    measured = {row[0].split(" ")[0] for table in tables for row in table["rows"]}
    assert measured >= GROUPS, GROUPS - measured
