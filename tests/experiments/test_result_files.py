"""Files of results: whole or not at all, folders checked before the work."""

import json
import os

import pytest

from gemmed._core.exceptions import OutputError
from gemmed.experiments.files import prepare_folder, write_csv, write_json


def test_writing_leaves_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "table.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert json.loads(path.read_text()) == {"a": 1}
    write_csv(tmp_path / "table.csv", [{"a": 1, "b": "x"}])
    assert (tmp_path / "table.csv").read_text() == "a,b\n1,x\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["table.csv", "table.json"]


def test_links_are_followed_and_devices_are_left_alone(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_csv(link, [{"a": 1}])
    assert link.is_symlink()
    assert target.read_text() == "a\n1\n"
    assert target.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="not a regular file"):
        write_csv(pipe, [{"a": 1}])
    assert pipe.is_fifo()


def test_a_file_in_the_way_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="--out"):
        prepare_folder(tmp_path / "file" / "folder")
