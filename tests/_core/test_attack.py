"""The attack for half a second each; ``make fuzz`` runs for as long as asked."""

import pytest

from attack.files import TARGETS
from attack.run import attack_group

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("soundfile")
pytest.importorskip("skops")


@pytest.mark.parametrize("name", TARGETS)
def test_every_file_is_read_or_refused_in_one_line(name):
    found = attack_group(name, seconds=0.5)
    assert found["wrong"] == []
    assert found["tried"] > 2 and found["refused"] > 0
    assert found["memory"] < 300_000_000


@pytest.mark.parametrize("name", ["encodings", "readers", "formats"])
def test_what_is_read_does_not_depend_on_how(name):
    found = attack_group(name, seconds=0.5)
    assert found["wrong"] == []
    assert found["tried"] > 20
