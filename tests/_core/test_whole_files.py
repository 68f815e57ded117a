"""Files are replaced as a whole, on the disk, without a look at the umask."""

import os
import stat
import threading

import pytest

from gemmed._core.whole_files import replacing


def test_content_is_synced_before_the_name_and_the_name_before_the_end(tmp_path, monkeypatch):
    order = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        order.append(f"{kind} of {os.fstat(descriptor).st_size if kind == 'file' else ''}".strip())
        real_sync(descriptor)

    def replace(source, target):
        order.append("rename")
        real_replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with replacing(tmp_path / "f") as temporary:
        temporary.write_text("hello")
    assert order == ["file of 5", "rename", "folder of"]


def test_a_file_that_cannot_be_synced_replaces_nothing(tmp_path, monkeypatch):
    (tmp_path / "f").write_text("old")

    def fails(descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="Input/output"), replacing(tmp_path / "f") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "f").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_the_umask_decides_and_is_never_changed(tmp_path, monkeypatch):
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask of all threads"))
        with replacing(tmp_path / "f") as temporary:
            temporary.write_text("x")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_a_private_file_stays_private_while_it_is_written(tmp_path):
    target = tmp_path / "f"
    target.write_text("secret")
    target.chmod(0o604)
    with replacing(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_many_threads_write_one_file(tmp_path):
    def write(text):
        for _ in range(10):
            with replacing(tmp_path / "f") as temporary:
                temporary.write_text(text * 1000)

    threads = [threading.Thread(target=write, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = (tmp_path / "f").read_text()
    assert len(content) == 1000 and len(set(content)) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_an_absent_folder_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"no folder .*nowhere"),
        replacing(tmp_path / "nowhere" / "t.csv"),
    ):
        pass
