"""The arena and the client: real memory, read-only where it should be, gone when it should be."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy
import pytest
from kernel_store_plasma import PlasmaStore, arena
from kernel_store_plasma.client import PlasmaClient

from kernel.conformance.object_store_shell import OWNER, READER, WRITER, StoreShell
from kernel.conformance.object_store_suite import name
from kernel_spec.errors import ObjectStoreError
from kernel_spec.store import Delete, Seal, Unpin

GIB = 1 << 30


def arenas() -> int:
    """Return how many descriptors of this process are arenas."""
    gc.collect()
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += "kernel-object-store" in os.readlink(f"/proc/self/fd/{descriptor}")
    return count


@pytest.fixture
def shell():
    shell = StoreShell(PlasmaStore(), 1 << 20)
    yield shell
    shell.close()


def test_objects_of_more_than_a_gibibyte_are_sparse() -> None:
    shell = StoreShell(PlasmaStore(), 2 * GIB)
    size = GIB + (1 << 20)
    location = shell.value(shell.create(name(0), size))
    view = shell.client.writable(location, size)
    view[:3], view[-3:] = b"abc", b"xyz"
    shell.handle(Seal(WRITER, name(0)))
    read = shell.view(shell.pin(name(0)))
    assert (len(read), bytes(read[:3]), bytes(read[-3:])) == (size, b"abc", b"xyz")
    assert os.fstat(shell.server.descriptors()[0]).st_blocks * 512 < 1 << 24
    shell.close()


def test_arrays_are_read_without_a_copy(shell: StoreShell) -> None:
    fired: list[bool] = []
    shell.put(name(0), numpy.arange(1000).tobytes())
    request = shell.pin(name(0))
    first = numpy.frombuffer(shell.view(request, lambda: fired.append(True)), numpy.int64)
    second = numpy.frombuffer(shell.view(request), numpy.int64)
    assert first.ctypes.data == second.ctypes.data
    assert not first.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        first.flags.writeable = True
    part = first[10:20].reshape(2, 5)[1]
    del first
    gc.collect()
    assert fired == [] and part.tolist() == [15, 16, 17, 18, 19]
    del part
    gc.collect()
    assert fired == [True]


def test_the_processor_refuses_writes_into_what_is_read(shell: StoreShell) -> None:
    shell.put(name(0), b"abc")
    address = numpy.frombuffer(shell.view(shell.pin(name(0))), numpy.uint8).ctypes.data
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.memset(address, 0, 1)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) in (signal.SIGSEGV, signal.SIGBUS)


def test_memory_of_a_deleted_object_is_used_again(shell: StoreShell) -> None:
    first = shell.value(shell.create(name(0), 100_000))
    shell.handle(Seal(WRITER, name(0)))
    shell.handle(Delete([name(0)]))
    assert shell.value(shell.create(name(1), 90_000)) == first


def test_closing_leaves_no_descriptor_behind() -> None:
    before = arenas()
    shell = StoreShell(PlasmaStore(), 1 << 20)
    shell.put(name(0), b"abc")
    assert shell.read(name(0)) == b"abc"
    assert arenas() > before
    shell.close()
    assert arenas() == before


def test_a_closed_client_says_so() -> None:
    descriptor = os.memfd_create("kernel-object-store")
    client = PlasmaClient(descriptor, 4096)
    client.close()
    client.close()
    with pytest.raises(ObjectStoreError, match="has closed its object store"):
        client.writable(0, 1)


def test_a_destructor_amid_the_first_mapping_may_use_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = os.memfd_create("kernel-object-store")
    os.ftruncate(descriptor, 4096)
    client = PlasmaClient(descriptor, 4096)
    mapping = arena.map_arena

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr("kernel_store_plasma.client.map_arena", mapping)
        client.writable(1, 2)[:] = b"bc"
        return mapping(*arguments)

    monkeypatch.setattr("kernel_store_plasma.client.map_arena", interrupted)
    client.writable(0, 1)[:] = b"a"
    assert bytes(client.readable(0, 3, lambda: None)) == b"abc"
    client.close()


def test_a_client_can_not_shrink_the_arena(shell: StoreShell) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(shell.server.descriptors()[0], 0)


def test_a_directory_backs_the_memory_and_shows_nothing(tmp_path: Path) -> None:
    server = PlasmaStore().open_server(1 << 20, str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    status = os.fstat(server.descriptors()[0])
    assert status.st_dev == tmp_path.stat().st_dev
    assert status.st_blocks * 512 >= 1 << 20, "all blocks are reserved at the start"
    server.view(0, 3)[:] = b"abc"
    assert os.pread(server.descriptors()[0], 3, 0) == b"abc"
    server.close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ObjectStoreError, match="missing' is not a directory; create or mount it"):
        PlasmaStore().open_server(1 << 20, str(tmp_path / "missing"))


def test_a_directory_that_is_too_small_is_an_error_at_the_start(tmp_path: Path, monkeypatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(arena.os, "posix_fallocate", full)
    before = arenas()
    with pytest.raises(
        ObjectStoreError, match=r"is too small for object_store_memory of 1048576 bytes \(\d+ bytes are"
    ):
        PlasmaStore().open_server(1 << 20, str(tmp_path))
    assert arenas() == before and list(tmp_path.iterdir()) == []


def test_more_than_the_machine_has_is_refused() -> None:
    with pytest.raises(ObjectStoreError, match="bytes of memory in all; ask for less"):
        PlasmaStore().open_server(1 << 60, None)


def test_without_memfd_a_temporary_file_is_used(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delattr(arena.os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shell = StoreShell(PlasmaStore(), 1 << 16)
    shell.put(name(0), b"abc")
    assert shell.read(name(0)) == b"abc"
    assert list(tmp_path.iterdir()) == []
    shell.close()


def test_a_view_may_outlive_its_pin_count(shell: StoreShell) -> None:
    """Unpins come from views: the server counts one pin for each view that lives."""
    queue: list[bytes] = []
    shell.put(name(0), b"abc")
    views = [shell.view(shell.pin(name(0)), lambda: queue.append(name(0))) for _ in range(3)]
    shell.handle(Delete([name(0)]))
    while views:
        assert shell.server.usage().used == 3
        views.pop()
        gc.collect()
        shell.handle(Unpin(READER, queue.pop()))
    assert shell.server.usage().used == 0
    assert OWNER not in {row.owner for row in shell.server.objects()}
