"""The store when it is small, full, or shared with processes that die; nothing lost, every byte accounted for."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.exceptions import GetTimeoutError, ObjectStoreFullError, OutOfDiskError, SpillError, WorkerDiedError
from kernel.runtime.current import get_runtime
from kernel.testing.constants import constants
from kernel.testing.faults import kill, wait_until
from kernel.testing.session import RunningSession, running_session
from kernel_processes.node.store_patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0
MB = 1 << 20
PATIENT = {
    "kernel_processes.node.store_patience.PATIENCE_SECONDS": 600.0,
    "kernel_processes.node.store_patience.OVERFLOW_SECONDS": 600.0,
}
"""For how long a store that is full waits for room: longer than any machine stands still."""


def usage() -> dict[str, int]:
    found: dict[str, int] = get_runtime().query("memory")["usage"]
    return found


def settles_at(**wanted: int) -> bool:
    gc.collect()
    found = usage()
    return all(found[name] == value for name, value in wanted.items())


def block(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def digest(array: Any) -> str:
    return hashlib.blake2b(array, digest_size=16).hexdigest()


def spilled_files(session: RunningSession) -> list[Path]:
    return [path for path in Path(session.directory, "spill").rglob("*") if path.is_file()]


# -- more than fits ------------------------------------------------------------------------------------------------


def test_ten_times_the_store_lives_on_and_comes_back() -> None:
    with running_session(object_store_memory=40 * MB) as session:

        @kernel.remote
        def check(array: np.ndarray) -> str:
            return digest(array)

        @kernel.remote
        def make(seed: int) -> np.ndarray:
            return block(seed, 4 * MB)

        digests, refs = [], []
        for number in range(100):
            array = block(number, 4 * MB)
            digests.append(digest(array))
            refs.append(kernel.put(array) if number % 2 else make.remote(number))
        assert kernel.get([check.remote(ref) for ref in refs], timeout=SECONDS) == digests
        order = list(range(100))
        random.Random(1).shuffle(order)
        assert all(digest(kernel.get(refs[number])) == digests[number] for number in order)
        found = usage()
        assert found["used"] <= 40 * MB and found["used"] + found["spilled"] >= 400 * MB
        del refs, array
        wait_until(lambda: settles_at(used=0, spilled=0, objects=0, pinned=0), SECONDS, "an empty store")
        wait_until(lambda: not spilled_files(session), SECONDS, "an empty spill directory")


def test_every_byte_is_accounted_for() -> None:
    with running_session(object_store_memory=64 * MB):
        sizes = [102_401, 150_000, 1_000_003, 3 * MB + 7]
        refs = []
        for count, size in enumerate(sizes, 1):
            refs.append(kernel.put(bytes(size)))
            rows = get_runtime().query("memory")["stored"]
            assert len(rows) == count
            assert usage()["used"] == sum(row[2] for row in rows)
            newest = max(row[2] for row in rows)
            assert size < newest < size + 400, "an object costs its bytes and a small head"
        total = usage()["used"]
        held = kernel.get(refs[3])
        assert usage()["pinned"] >= sizes[3]
        del held
        while refs:
            before = usage()["used"]
            refs.pop()
            wait_until(lambda seen=before: usage()["used"] < seen, SECONDS, "the object's end")
        assert total > 0
        wait_until(lambda: settles_at(used=0, reserved=0, objects=0, pinned=0, spilled=0), SECONDS, "exactly zero")


def test_objects_of_every_size() -> None:
    with running_session(object_store_memory=400 * MB):

        @kernel.remote
        def echo(value: Any) -> Any:
            return value

        for size in [1, 2, 63, 64, 65, 102_399, 102_400, 102_401, MB - 1, MB, MB + 1, 97 * MB + 13]:
            data = np.random.default_rng(size).bytes(size)
            assert kernel.get(kernel.put(data)) == data
            assert kernel.get(echo.remote(data), timeout=SECONDS) == data
            array = np.frombuffer(data, np.uint8)
            assert np.array_equal(kernel.get(echo.remote(array), timeout=SECONDS), array)


# -- full ----------------------------------------------------------------------------------------------------------


def test_a_store_full_of_values_in_use_says_who_holds_them() -> None:
    with running_session(object_store_memory=32 * MB) as session:
        (folder,) = Path(session.directory, "spill").iterdir()
        (folder / "overflow").touch()  # no files can be made
        refs = [kernel.put(block(n, 6 * MB)) for n in range(5)]
        held = kernel.get(refs)
        begun = time.monotonic()
        with pytest.raises(ObjectStoreFullError) as caught:
            kernel.put(block(9, 6 * MB))
        assert time.monotonic() - begun > PATIENCE_SECONDS - 0.5
        message = str(caught.value)
        assert refs[0].hex() in message and "pinned by" in message and "6.0 MiB" in message
        assert "can't be kept in a file either" in message and str(folder / "overflow") in message
        assert get_runtime().process.hex() in message, "the holder is this process"
        del held
        more = kernel.put(block(9, 6 * MB))
        assert digest(kernel.get(more)) == digest(block(9, 6 * MB))
        assert [digest(kernel.get(ref)) for ref in refs] == [digest(block(n, 6 * MB)) for n in range(5)]


@contextmanager
def one_spilled_and_no_room_for_it() -> Iterator[tuple[list[kernel.ObjectRef], list[np.ndarray]]]:
    """A session with five objects, of which the first is spilled and the rest are held, as yielded."""
    with constants(PATIENT), running_session(object_store_memory=32 * MB):
        refs = [kernel.put(block(n, 7 * MB)) for n in range(5)]
        yield refs, kernel.get(refs[1:])


def test_ctrl_c_in_a_get_that_waits_for_room_leaves_nothing_pinned() -> None:
    with one_spilled_and_no_room_for_it() as (refs, held):

        def press() -> None:
            wait_until(lambda: usage()["waiting"] == 1, SECONDS, "a get that waits")
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            kernel.get(refs[0])
        thread.join()
        held.clear()
        assert digest(kernel.get(refs[0])) == digest(block(0, 7 * MB))
        refs.clear()
        wait_until(lambda: settles_at(used=0, pinned=0, spilled=0, objects=0, waiting=0), SECONDS, "an empty store")


def test_a_get_that_waits_for_room_keeps_to_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with one_spilled_and_no_room_for_it() as (refs, held):
        with monkeypatch.context() as patch:
            patch.setattr("kernel_processes.runtime.store_access.LEAST_SECONDS", SECONDS)  # the agent has to answer
            assert kernel.get(refs[1], timeout=0)[0] == held[0][0], "what is in memory takes no time"
        monkeypatch.setattr(
            "kernel_processes.runtime.store_access._QUESTION_SECONDS", SECONDS
        )  # so that the agent can say why
        begun = time.monotonic()
        with pytest.raises(GetTimeoutError, match=r"not in memory: \d+ of the store's \d+ bytes are taken, \d+"):
            kernel.get(refs[0], timeout=0.1)
        assert time.monotonic() - begun < 2 * SECONDS, "the store has more patience"
        held.clear()


def test_who_waits_for_room_gets_it_when_a_holder_lets_go() -> None:
    with constants(PATIENT), running_session(object_store_memory=32 * MB):
        held = [kernel.get(kernel.put(block(n, 7 * MB))) for n in range(4)]
        outcome: list[Any] = []
        thread = threading.Thread(target=lambda: outcome.append(kernel.put(block(9, 7 * MB))))
        thread.start()
        wait_until(lambda: usage()["waiting"] == 1, SECONDS, "a request that waits")
        held.pop()
        thread.join(timeout=SECONDS)
        assert digest(kernel.get(outcome[0])) == digest(block(9, 7 * MB))
        held.clear()
        outcome.clear()


SPILL_PLUGIN = {
    "spill_small-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: spill-small\nVersion: 1.0\n",
    "spill_small-1.0.dist-info/entry_points.txt": "[kernel.plugins]\nspill_small = spill_small\n",
    "spill_small.py": """
        import errno, os, time
        from kernel.defaults.spill import DiskSpill
        from kernel_spec import hookimpl

        LIMIT = int(os.environ["SPILL_SMALL_BYTES"])

        class SmallDisk(DiskSpill):
            name = "small"

            def __init__(self, directory):
                super().__init__(directory)
                (self.folder,) = os.scandir(directory)

            @property
            def timeout_seconds(self):  # who only is slow is waited for
                return 1.0 if self.hangs() else 120.0

            def hangs(self):
                return os.path.exists(os.path.join(os.environ["SPILL_SMALL_FLAG"], "hang"))

            def hang(self):
                while self.hangs():
                    time.sleep(0.01)

            def read_into(self, uri, data):
                self.hang()
                super().read_into(uri, data)

            def write(self, object, data):
                self.hang()
                taken = sum(entry.stat().st_size for entry in os.scandir(self.folder))
                roomy = os.path.exists(os.path.join(os.environ["SPILL_SMALL_FLAG"], "room"))
                if taken + data.nbytes > LIMIT and not roomy:
                    raise self._write_error(object, data.nbytes, OSError(errno.ENOSPC, "No space left on device"))
                return super().write(object, data)

        @hookimpl
        def kernel_contracts():
            return {"spill_target": 1}

        @hookimpl
        def kernel_spill_targets():
            return {"small": SmallDisk}
    """,
}


@contextmanager
def small_disk(limit: int) -> Iterator[Path]:
    """Install a spill target that is full at `limit` bytes until a file `room` is in the directory yielded."""
    with tempfile.TemporaryDirectory(dir="/tmp") as site, pytest.MonkeyPatch.context() as patch:
        for name, text in SPILL_PLUGIN.items():
            path = Path(site, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(textwrap.dedent(text).lstrip())
        patch.syspath_prepend(site)
        patch.setenv("SPILL_SMALL_BYTES", str(limit))
        patch.setenv("SPILL_SMALL_FLAG", site)
        yield Path(site)


def test_a_full_disk_is_an_error_that_loses_nothing() -> None:
    with small_disk(20 * MB) as site, running_session(object_store_memory=32 * MB, spill_target="small") as session:
        refs = []
        with pytest.raises(OutOfDiskError, match=r"No space left|spilling failed") as caught:
            for number in range(40):
                refs.append(kernel.put(block(number, 4 * MB)))
        assert "spill_directory" in str(caught.value) or "make room" in str(caught.value)
        assert 11 <= len(refs) <= 13, "32 MB in memory and 20 MB on disk"
        assert session.log().count("\n") <= 3, "a full disk is no reason to fill the log"
        assert digest(kernel.get(refs[-1])) == digest(block(len(refs) - 1, 4 * MB)), "what is in memory stays of use"

        @kernel.remote(max_retries=0)
        def make() -> np.ndarray:
            return block(1, 4 * MB)

        (site / "room").touch()
        refs += [kernel.put(block(number, 4 * MB)) for number in range(len(refs), 20)]
        assert kernel.get(make.remote(), timeout=SECONDS).sum() == block(1, 4 * MB).sum()
        assert [digest(kernel.get(ref)) for ref in refs] == [digest(block(n, 4 * MB)) for n in range(20)]


def test_a_hung_disk_is_an_error_in_time_and_goes_on_when_it_answers() -> None:
    with small_disk(1 << 40) as site, running_session(object_store_memory=32 * MB, spill_target="small"):
        refs = [kernel.put(block(number, 4 * MB)) for number in range(13)]
        refs.pop()
        wait_until(lambda: usage()["used"] <= 25 * MB, SECONDS, "room for one object")
        hang = site / "hang"
        hang.touch()
        with pytest.raises(SpillError, match=r"the spill target 'small' did not read object .* within 1 s: it hangs"):
            kernel.get(refs[0], timeout=SECONDS)
        with pytest.raises(SpillError, match=r"the spill target 'small' did not write object .* within 1 s: it hangs"):
            kernel.put(block(12, 4 * MB))
        assert digest(kernel.get(refs[11])) == digest(block(11, 4 * MB)), "what is in memory stays of use"
        hang.unlink()
        refs += [kernel.put(block(number, 4 * MB)) for number in range(len(refs), 16)]
        assert [digest(kernel.get(ref, timeout=SECONDS)) for ref in refs] == [
            digest(block(n, 4 * MB)) for n in range(16)
        ]
        refs.clear()
        wait_until(lambda: settles_at(used=0, spilled=0, objects=0, pinned=0), SECONDS, "an empty store")


def test_a_session_needs_no_dev_shm() -> None:
    program = """
        import json, os
        import numpy as np
        import kernel

        kernel.init(num_cpus=1, object_store_memory=64 << 20)

        @kernel.remote
        def total(array):
            return int(array.sum())

        ref = kernel.put(np.ones(4 << 20))
        found = os.statvfs("/dev/shm").f_blocks, sorted(os.listdir("/dev/shm"))
        print(json.dumps([kernel.get(total.remote(ref)), *found]))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    tiny = may_mount()
    if tiny:  # else it is enough to see that nothing is put there
        mount = 'mount -t tmpfs -o size=1m none /dev/shm && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", mount, "sh", *command]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, env=environment)
    assert found.returncode == 0, found.stderr
    result, blocks, files = json.loads(found.stdout)
    assert result == 4 << 20
    assert not [name for name in files if "kernel" in name]
    if tiny:
        assert blocks * 4096 <= MB and files == []


def may_mount() -> bool:
    return shutil.which("unshare") is not None and (
        subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
    )


# -- clients that die ----------------------------------------------------------------------------------------------


def test_writers_and_readers_killed_at_random_leave_the_store_exact() -> None:
    with running_session(object_store_memory=48 * MB, num_cpus=3) as session:

        @kernel.remote(max_retries=0)
        def write(seed: int) -> list:
            kept = [kernel.put(block(seed + n, 2 * MB)) for n in range(30)]
            return [ref.hex() for ref in kept]

        @kernel.remote(max_retries=0)
        def read(array: np.ndarray) -> str:
            views = [array[n:] for n in range(10)]
            time.sleep(0.05)
            return digest(views[0])

        shared = kernel.put(block(7, 3 * MB))
        right = digest(block(7, 3 * MB))
        chance = random.Random(4)
        for number in range(8):
            refs = [write.remote(number), read.remote(shared), write.remote(number + 50)]
            kernel.wait(refs, timeout=chance.uniform(0.05, 0.3))
            for worker in session.workers():
                with suppress(ProcessLookupError):  # it ended by itself
                    kill(worker)
            for ref in refs:
                try:
                    assert kernel.get(ref, timeout=SECONDS) in (right, kernel.get(ref))
                except WorkerDiedError:
                    continue
        assert digest(kernel.get(shared)) == right
        del refs, ref, shared
        wait_until(
            lambda: settles_at(used=0, reserved=0, spilled=0, objects=0, pinned=0, waiting=0), SECONDS, "exactly zero"
        )
        wait_until(lambda: not spilled_files(session), SECONDS, "an empty spill directory")
        assert kernel.get(kernel.put(bytes(40 * MB))) == bytes(40 * MB), "all of the memory can be used again"


def test_pins_of_a_killed_worker_are_gone() -> None:
    with running_session(object_store_memory=32 * MB):

        @kernel.remote
        class Holder:
            def hold(self, array: np.ndarray) -> int:
                self.array = array
                return os.getpid()

        ref = kernel.put(block(1, 20 * MB))
        holder = Holder.remote()
        worker = kernel.get(holder.hold.remote(ref))
        assert usage()["pinned"] >= 20 * MB
        kill(worker)
        wait_until(lambda: settles_at(pinned=0), SECONDS, "the end of its pins")
        other = kernel.put(block(2, 20 * MB))
        assert digest(kernel.get(other)) == digest(block(2, 20 * MB))


def test_objects_deleted_while_they_are_spilled() -> None:
    with running_session(object_store_memory=24 * MB) as session:
        for round in range(6):
            refs = [kernel.put(block(n, 4 * MB)) for n in range(12)]
            if round % 2:
                values = [kernel.get(ref)[0] for ref in refs[:3]]
                assert len(values) == 3
            del refs
        wait_until(lambda: settles_at(used=0, reserved=0, spilled=0, objects=0), SECONDS, "exactly zero")
        wait_until(lambda: not spilled_files(session), SECONDS, "an empty spill directory")
