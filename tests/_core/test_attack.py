"""The attack for a quarter of a second each; ``make fuzz`` runs for as long as asked."""

import pytest

from attack.files import TARGETS
from attack.run import attack_groups

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("soundfile")
pytest.importorskip("skops")


def test_every_file_is_read_or_refused_in_one_line():
    for name, found in attack_groups(list(TARGETS), seconds=0.25).items():
        assert found["wrong"] == [], name
        assert found["tried"] > 2 and found["refused"] > 0, name
        assert found["memory"] < 300_000_000, name


def test_what_is_read_does_not_depend_on_how():
    for name, found in attack_groups(["encodings", "readers", "formats"], seconds=0.4).items():
        assert found["wrong"] == [], name
        assert found["tried"] > 20, name
