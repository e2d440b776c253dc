"""The target keeps its contract on disks and in memory, and says what failed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pluggy
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from kernel_spill_fsspec import plugin
from kernel_spill_fsspec.target import STEP_BYTES

from kernel.conformance.spill_target import OBJECT, SpillTargetConformance
from kernel.testing.faults import wait_until
from kernel_spec import hooks
from kernel_spec.errors import OutOfDiskError, SpillError


class TestDirectory(SpillTargetConformance):
    make_target = staticmethod(plugin.open_target)


class TestFileUrl(SpillTargetConformance):
    make_target = staticmethod(lambda directory: plugin.open_target(f"file://{directory}"))


class TestMemory(SpillTargetConformance):
    make_target = staticmethod(lambda directory: plugin.open_target(f"memory://{directory}"))


class FaultyFiles(MemoryFileSystem):
    """Files in memory. `fault(verb, path)` may raise or hang; `calls` notes what was asked."""

    protocol = "faulty"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    calls: ClassVar[list[str]] = []
    fault: ClassVar[Callable[[str, str], None]] = staticmethod(lambda verb, path: None)

    def _asked(self, verb: str, path: str) -> None:
        self.calls.append(verb)
        type(self).fault(verb, path)

    def open(self, path: str, mode: str = "rb", *rest: Any, **more: Any) -> Any:
        self._asked("open", path)
        file = super().open(path, mode, *rest, **more)
        write = file.write

        def faulty_write(data: bytes) -> int:
            self._asked("write", path)
            written: int = write(data)
            return written

        if "w" in mode:
            file.write = faulty_write
        return file

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        self._asked("read", path)
        data: bytes = super().cat_file(path, start, end, **more)
        return data

    def rm(self, path: Any, recursive: bool = False, maxdepth: Any = None) -> None:
        self._asked("rm", str(path))
        super().rm(path, recursive, maxdepth)


@pytest.fixture
def faulty() -> Iterator[type[FaultyFiles]]:
    fsspec.register_implementation("faulty", FaultyFiles, clobber=True)
    yield FaultyFiles
    FaultyFiles.fault = staticmethod(lambda verb, path: None)
    FaultyFiles.store.clear()
    FaultyFiles.calls.clear()


def target(**options: Any) -> Any:
    return plugin.open_target("faulty://place", **{"step_seconds": 5.0, "patience_seconds": 5.0, **options})


def read(made: Any, uri: str, size: int) -> bytes:
    memory = bytearray(size)
    made.read_into(uri, memoryview(memory))
    return bytes(memory)


def fail(files: type[FaultyFiles], error: Exception, times: int, verbs: tuple[str, ...]) -> None:
    """Have the next `times` calls of `verbs` raise."""
    left = iter(range(times))

    def fault(verb: str, path: str) -> None:
        if verb in verbs and next(left, None) is not None:
            raise error

    files.fault = staticmethod(fault)


def test_what_fails_for_a_moment_is_repeated(faulty: type[FaultyFiles]) -> None:
    made = target()
    data = os.urandom(2 * STEP_BYTES + 5)
    for error in (ConnectionResetError("reset"), TimeoutError("slow"), OSError(errno.EBUSY, "slow down")):
        fail(faulty, error, 2, ("open", "write", "read", "rm"))
        uri = made.write(OBJECT, memoryview(data))
        fail(faulty, error, 2, ("read",))
        assert read(made, uri, len(data)) == data
        fail(faulty, error, 2, ("rm",))
        made.delete(uri)
        assert list(faulty.store) == []
    made.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), OutOfDiskError),
        (OSError(errno.EDQUOT, "Quota exceeded"), OutOfDiskError),
        (OSError(errno.EIO, "An error occurred (XMinioStorageFull) when calling PutObject"), OutOfDiskError),
        (PermissionError("Access Denied"), SpillError),
        (FileNotFoundError("The specified bucket does not exist"), SpillError),
    ],
)
def test_what_does_not_pass_is_said_at_once(faulty: type[FaultyFiles], error: Exception, kind: type[Exception]) -> None:
    made = target()
    fail(faulty, error, 100, ("write",))
    faulty.calls.clear()
    with pytest.raises(kind) as caught:
        made.write(OBJECT, memoryview(b"x" * 100))
    assert str(caught.value).startswith(f"can't spill object {OBJECT.hex()} of 100 bytes to faulty://place: ")
    assert str(error) in str(caught.value) and "spill_directory" in str(caught.value)
    assert faulty.calls.count("write") == 1
    assert list(faulty.store) == [], "half of a copy is left"
    made.close()


def test_patience_ends(faulty: type[FaultyFiles]) -> None:
    made = target(patience_seconds=0.3)
    fail(faulty, ConnectionRefusedError("nobody there"), 10_000, ("open", "read", "rm"))
    with pytest.raises(SpillError, match="can't spill object .* nobody there; see whether it answers"):
        made.write(OBJECT, memoryview(b"abc"))
    fail(faulty, ConnectionRefusedError("nobody there"), 0, ())
    assert read(made, made.write(OBJECT, memoryview(b"abc")), 3) == b"abc"
    made.close()


def test_what_hangs_fails_in_time_and_never_touches_memory_again(faulty: type[FaultyFiles]) -> None:
    made = target(patience_seconds=0.1)
    uri = made.write(OBJECT, memoryview(b"abc"))
    made._step_seconds = 0.2
    go = threading.Event()

    def hang(verb: str, path: str) -> None:
        if verb in ("read", "write"):
            go.wait()

    faulty.fault = staticmethod(hang)
    memory = bytearray(b"old")
    with pytest.raises(SpillError, match=r"can't read the spilled copy .* it did not answer within 0.2 s"):
        made.read_into(uri, memoryview(memory))
    with pytest.raises(SpillError, match=r"can't spill object .* it did not answer within 0.2 s"):
        made.write(OBJECT, memoryview(b"xyz"))
    memory[:] = b"new"
    go.set()
    made._step_seconds = 120.0
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "spill-step"], 120, "the end of what hung")
    assert memory == b"new"
    made.close()


def test_a_copy_that_was_cut_is_refused(faulty: type[FaultyFiles]) -> None:
    made = target()
    uri = made.write(OBJECT, memoryview(b"abcdef"))
    (name,) = faulty.store
    faulty.store[name].truncate(4)
    with pytest.raises(SpillError, match=r"is 2 bytes too short, of"):
        read(made, uri, 6)
    made.close()


def test_missing_ones_among_many_are_no_reason_to_keep_the_rest(faulty: type[FaultyFiles]) -> None:
    made = target()
    uris = [made.write(OBJECT, memoryview(b"abc")) for _ in range(5)]
    made.delete(uris[1])
    made.delete_many(uris)
    assert list(faulty.store) == []
    with pytest.raises(SpillError, match="is not the name of a copy that was spilled to"):
        made.delete_many([uris[0].replace("kernel-spill-", "kernel-spill-0")])
    made.close()


def test_a_place_that_can_not_be_written_is_known_at_the_start(faulty: type[FaultyFiles], tmp_path: Path) -> None:
    fail(faulty, PermissionError("Access Denied"), 100, ("open",))
    with pytest.raises(SpillError, match=r"can't spill to faulty://place: PermissionError: Access Denied"):
        target()
    with pytest.raises(SpillError, match="can't make a directory for spilled objects in '/proc/nonesuch'"):
        plugin.open_target("/proc/nonesuch")
    with pytest.raises(SpillError, match=r"can't use 'nonesuch://place': .*pip install"):
        plugin.open_target("nonesuch://user:secret@place")


def test_a_directory_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    made: Any = plugin.open_target(str(tmp_path / "spill"))
    gone = made.write(OBJECT, memoryview(b"abc"))
    shutil.rmtree(tmp_path / "spill")
    again = made.write(OBJECT, memoryview(b"def"))
    assert stat.S_IMODE(os.stat(made.directory).st_mode) == 0o700
    data = bytearray(3)
    made.read_into(again, memoryview(data))
    assert data == b"def"
    with pytest.raises(SpillError, match="No such file"):
        made.read_into(gone, memoryview(data))
    made.close()
    assert not os.path.exists(made.directory)


def test_a_directory_is_private_and_named(tmp_path: Path) -> None:
    made: Any = plugin.open_target(str(tmp_path))
    assert stat.S_IMODE(os.stat(made.directory).st_mode) == 0o700
    assert Path(made.directory).parent == tmp_path
    made.write(OBJECT, memoryview(b"abc"))
    assert len(os.listdir(made.directory)) == 1
    made.close()
    assert not hasattr(plugin.open_target("memory://place"), "directory")


def test_offers_itself_by_name() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_spill_targets() == [{"fsspec": plugin.open_target}]
    assert manager.hook.kernel_contracts() == [{"spill_target": 1}]
    assert "fsspec" not in vars(plugin)
