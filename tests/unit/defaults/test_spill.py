"""The default spill target passes the suite of every target, and leaves nothing when a disk is full."""

from __future__ import annotations

import errno
import os
import shutil
import stat

import pytest

from kernel.conformance.spill_target import OBJECT, SpillTargetConformance
from kernel.defaults import spill
from kernel.defaults.spill import DiskSpill
from kernel_spec.errors import OutOfDiskError, SpillError


class TestDiskSpill(SpillTargetConformance):
    make_target = staticmethod(DiskSpill)


def test_files_are_private(tmp_path) -> None:
    target = DiskSpill(str(tmp_path))
    target.write(OBJECT, memoryview(b"abc"))
    (directory,) = tmp_path.iterdir()
    (file,) = directory.iterdir()
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    target.close()


def test_a_directory_that_somebody_removed_is_made_again(tmp_path) -> None:
    target = DiskSpill(str(tmp_path / "spill"))
    gone = target.write(OBJECT, memoryview(b"abc"))
    shutil.rmtree(tmp_path / "spill")
    again = target.write(OBJECT, memoryview(b"def"))
    assert stat.S_IMODE(os.stat(target.directory).st_mode) == 0o700
    read = bytearray(3)
    target.read_into(again, memoryview(read))
    assert read == b"def"
    with pytest.raises(SpillError, match="No such file"):
        target.read_into(gone, memoryview(read))
    target.close()
    assert not os.path.exists(target.directory)


def test_closing_touches_nothing_else(tmp_path) -> None:
    (tmp_path / "kernel-spill-of-another-session").mkdir()
    DiskSpill(str(tmp_path)).close()
    assert [path.name for path in tmp_path.iterdir()] == ["kernel-spill-of-another-session"]


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [(errno.ENOSPC, OutOfDiskError, "bytes are free there"), (errno.EIO, SpillError, "spill_directory")],
)
def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch, number: int, kind: type[Exception], words: str) -> None:
    target = DiskSpill(str(tmp_path))
    real_write, calls = os.write, []

    def write(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(number, os.strerror(number))
        return real_write(descriptor, data[:2])

    monkeypatch.setattr(spill.os, "write", write)
    with pytest.raises(kind, match=words) as caught:
        target.write(OBJECT, memoryview(b"abcdef"))
    assert OBJECT.hex() in str(caught.value) and "6 bytes" in str(caught.value)
    (directory,) = tmp_path.iterdir()
    assert list(directory.iterdir()) == []


def test_a_directory_that_can_not_be_made_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpillError, match="spill_directory"):
        DiskSpill(str(tmp_path / "file" / "below"))


def test_files_of_others_are_out_of_reach(tmp_path) -> None:
    target = DiskSpill(str(tmp_path))
    (tmp_path / "precious").write_text("abc")
    with pytest.raises(SpillError, match="names nothing"):
        target.delete(f"file://{tmp_path}/precious")
    assert (tmp_path / "precious").exists()


def test_a_url_is_no_directory() -> None:
    with pytest.raises(SpillError, match=r"is a URL \(s3://\.\.\.\), and the spill target 'disk' .*'fsspec'"):
        DiskSpill("s3://bucket/prefix")
