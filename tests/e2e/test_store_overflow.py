"""More than the object store holds: it goes into mapped files, is read back exactly, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.exceptions import ObjectStoreFullError
from kernel.runtime.current import get_runtime
from kernel.testing.cluster import Cluster
from kernel.testing.constants import constants
from kernel.testing.disks import SmallDisk, why_not
from kernel.testing.faults import agents_of, kill, wait_until
from kernel.testing.leaks import no_leaks
from kernel.testing.roots import temporary_root
from kernel.testing.session import RunningSession, running_session

SECONDS = 120.0
MB = 1 << 20
STORE = 16 * MB
LARGE = STORE + STORE // 2
HASTY = {"kernel_processes.node.store_patience.OVERFLOW_SECONDS": 0.05}
"""So that a test need not wait for others to let go, who won't."""


def block(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def usage() -> dict[str, int]:
    found: dict[str, int] = get_runtime().query("memory")["usage"]
    return found


def files(session: RunningSession) -> list[Path]:
    return [path for path in Path(session.directory, "spill").rglob("*") if path.is_file()]


def is_empty(session: RunningSession) -> bool:
    gc.collect()
    found = usage()
    counts = {name: found[name] for name in ("used", "spilled", "overflow", "overflow_objects", "objects", "waiting")}
    return not any(counts.values()) and not files(session)


@kernel.remote(max_retries=0)
def make(seed: int, size: int) -> np.ndarray:
    return block(seed, size)


@kernel.remote(max_retries=0)
def same(value: np.ndarray, seed: int) -> bool:
    return bool(np.array_equal(value, block(seed, value.nbytes)))


@kernel.remote(max_retries=0)
def echo(value: Any) -> Any:
    return value


@kernel.remote(max_retries=0, num_returns="streaming")
def stream(count: int, size: int) -> Any:
    for seed in range(count):
        yield block(seed, size)


@kernel.remote
class Keeper:
    """Keeps a value, and what it is told to make."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def same(self, value: np.ndarray, seed: int) -> bool:
        return bool(np.array_equal(value, block(seed, value.nbytes)))

    def make(self, seed: int, size: int) -> np.ndarray:
        return block(seed, size)

    def total(self) -> int:
        return int(self.value.sum())

    def pid(self) -> int:
        return os.getpid()


# -- larger than the store -------------------------------------------------------------------------------------------


def test_half_as_much_again_as_the_store_goes_every_way_and_comes_back_exactly() -> None:
    with running_session(object_store_memory=STORE) as session:
        put = kernel.put(block(1, LARGE))
        assert np.array_equal(kernel.get(put), block(1, LARGE))
        assert kernel.get(same.remote(put, 1), timeout=SECONDS), "an argument, by reference"
        assert kernel.get(same.remote(block(2, LARGE), 2), timeout=SECONDS), "an argument, by value"
        assert np.array_equal(kernel.get(make.remote(3, LARGE), timeout=SECONDS), block(3, LARGE)), "a result"
        keeper = Keeper.remote(put)
        assert kernel.get(keeper.total.remote(), timeout=SECONDS) == int(block(1, LARGE).sum())
        assert kernel.get(keeper.same.remote(block(4, LARGE), 4), timeout=SECONDS)
        assert np.array_equal(kernel.get(keeper.make.remote(5, LARGE), timeout=SECONDS), block(5, LARGE))
        items = [kernel.get(ref, timeout=SECONDS) for ref in stream.remote(2, LARGE)]
        assert all(np.array_equal(item, block(seed, LARGE)) for seed, item in enumerate(items))
        assert np.array_equal(asyncio.run(_awaited(put)), block(1, LARGE))
        found = usage()
        assert found["used"] < STORE and found["overflow"] >= 3 * LARGE, "the put one, and two of the stream"
        kernel.kill(keeper)
        del put, keeper, items
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


async def _awaited(ref: kernel.ObjectRef) -> Any:
    return await ref


def test_what_fits_the_store_but_not_beside_its_argument_passes_through_a_task() -> None:
    with constants(HASTY), running_session(object_store_memory=STORE) as session:
        size = STORE * 3 // 4
        assert np.array_equal(kernel.get(echo.remote(block(1, size)), timeout=SECONDS), block(1, size))
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


# -- together more than the store ------------------------------------------------------------------------------------


def test_eight_views_of_a_fifth_of_the_store_are_held_at_once() -> None:
    with constants(HASTY), running_session(object_store_memory=STORE) as session:
        size = STORE // 5
        held = [kernel.get(make.remote(seed, size), timeout=SECONDS) for seed in range(8)]
        assert all(np.array_equal(view, block(seed, size)) for seed, view in enumerate(held))
        assert usage()["overflow_objects"] == 4
        said = "an object of 3.2 MiB went into a file in"
        taken = "12.8 MiB there are taken, 12.8 MiB of them by what is in use"
        why = f"because the object store of 16.0 MiB had no room for it: {taken}"
        assert session.log().count(said) == 1 and why in session.log(), session.log()
        held.clear()
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


def test_spilled_objects_for_which_there_is_no_room_are_mapped_from_copies() -> None:
    with constants(HASTY), running_session(object_store_memory=STORE) as session:
        size = STORE // 5
        refs = [kernel.put(block(seed, size)) for seed in range(8)]
        wait_until(lambda: usage()["spilled"] >= 4 * size, SECONDS, "spilling")
        held = kernel.get(refs)
        assert all(np.array_equal(view, block(seed, size)) for seed, view in enumerate(held))
        found = usage()
        assert found["objects"] == 8 and found["overflow_objects"] == 4, found
        held.clear()
        wait_until(lambda: usage()["overflow_objects"] <= 1, SECONDS, "the end of all copies but that last got")
        assert [int(kernel.get(ref)[7]) for ref in refs] == [int(block(seed, size)[7]) for seed in range(8)]
        refs.clear()
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


def test_neighbours_of_what_is_in_files_are_spilled_and_come_back() -> None:
    with running_session(object_store_memory=STORE) as session:
        large = kernel.get(kernel.put(block(99, LARGE)))
        refs = [kernel.put(block(seed, 3 * MB)) for seed in range(12)]
        assert [kernel.get(same.remote(ref, seed), timeout=SECONDS) for seed, ref in enumerate(refs)] == [True] * 12
        found = usage()
        assert found["spilled"] > 0 and found["overflow_objects"] == 1
        assert np.array_equal(large, block(99, LARGE))
        del large, refs
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


# -- views and files -------------------------------------------------------------------------------------------------


def test_a_value_from_a_file_can_not_be_written_to_and_outlives_its_reference() -> None:
    with running_session(object_store_memory=STORE) as session:
        ref = kernel.put(block(1, LARGE))
        view = kernel.get(ref)
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
        (path,) = files(session)
        assert path.stat().st_mode & 0o777 == 0o600
        part = view[MB : MB + 10]
        del ref, view
        gc.collect()
        assert usage()["overflow_objects"] == 1, "a part of it is in use"
        assert np.array_equal(part, block(1, LARGE)[MB : MB + 10])
        del part
        wait_until(lambda: is_empty(session), SECONDS, "the end of the file")


def test_a_process_that_is_killed_takes_its_views_and_what_it_was_writing_with_it() -> None:
    with running_session(object_store_memory=STORE) as session:
        keeper = Keeper.options(max_restarts=0).remote(kernel.put(block(1, LARGE)))
        pid = kernel.get(keeper.pid.remote(), timeout=SECONDS)
        assert usage()["overflow_objects"] == 1
        kill(pid)
        del keeper
        wait_until(lambda: is_empty(session), SECONDS, "the end of the file")


def test_an_agent_that_is_killed_leaves_no_file() -> None:
    for place in ("", "spilled"):
        with temporary_root() as root, no_leaks(root):
            spill = os.path.join(root, place)
            kernel.init(num_cpus=1, object_store_memory=STORE, temp_dir=root, spill_directory=spill if place else None)
            view = kernel.get(kernel.put(block(1, LARGE)))
            (file,) = [path for path in Path(root).rglob("overflow/*") if path.is_file()]
            for agent in agents_of():
                kill(agent)
            wait_until(lambda file=file: not file.exists(), SECONDS, "the end of the file")
            assert np.array_equal(view, block(1, LARGE)), "what is mapped stays"
            del view
            kernel.shutdown()
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(spill) if place else None


def test_a_url_for_spilling_leaves_the_files_on_this_machine() -> None:
    pytest.importorskip("kernel_spill_fsspec")
    url = "memory://overflowing"
    with running_session(object_store_memory=STORE, spill_target="fsspec", spill_directory=url) as session:
        view = kernel.get(make.remote(1, LARGE), timeout=SECONDS)
        (path,) = files(session)
        assert path.parent == Path(session.directory, "spill", "overflow")
        assert np.array_equal(view, block(1, LARGE))
        del view
        wait_until(lambda: is_empty(session), SECONDS, "the end of the file")


def test_a_file_that_something_else_removed_is_named_and_made_again_where_it_can_be() -> None:
    with running_session(object_store_memory=STORE) as session:
        ref = kernel.put(block(1, LARGE))
        (path,) = files(session)
        path.unlink()
        with pytest.raises(kernel.exceptions.ObjectLostError, match=rf"{path}.* is gone: something removed it"):
            kernel.get(ref, timeout=SECONDS)
        made = make.options(max_retries=1).remote(2, LARGE)
        kernel.wait([made], timeout=SECONDS)
        (path,) = files(session)
        path.unlink()
        assert kernel.get(same.remote(made, 2), timeout=SECONDS), "its task was run again"
        assert np.array_equal(kernel.get(made, timeout=SECONDS), block(2, LARGE))
        del ref, made
        wait_until(lambda: is_empty(session), SECONDS, "the end of the files")


# -- no room anywhere ------------------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_that_says_where_how_much_is_free_and_what_to_do() -> None:
    if reason := why_not():
        pytest.skip(f"not tried on a full disk: {reason}")
    with SmallDisk(LARGE + 8 * MB) as disk, running_session(object_store_memory=STORE, spill_directory=disk.path):
        first = kernel.get(kernel.put(block(1, LARGE)))
        with pytest.raises(ObjectStoreFullError) as caught:
            kernel.put(block(2, LARGE))
        for part in (
            disk.path,
            "No space left on device",
            "bytes are free there",
            "make room there",
            "spill_directory",
        ):
            assert part in str(caught.value), str(caught.value)
        with pytest.raises(ObjectStoreFullError, match=r"can never fit.*file either.*raise object_store_memory"):
            kernel.get(make.remote(2, LARGE), timeout=SECONDS)
        assert np.array_equal(first, block(1, LARGE))
        del first
        wait_until(lambda: disk.room > LARGE, SECONDS, "room on the disk")
        assert np.array_equal(kernel.get(kernel.put(block(2, LARGE))), block(2, LARGE))


def test_a_quota_counts_what_is_in_files() -> None:
    with running_session(object_store_memory=STORE, driver_object_store_memory=LARGE + MB):
        first = kernel.put(block(1, LARGE))
        with pytest.raises(ObjectStoreFullError, match=r"its driver_object_store_memory\) and holds"):
            kernel.put(block(2, 2 * MB))
        del first
        assert np.array_equal(kernel.get(kernel.put(block(2, LARGE))), block(2, LARGE))


# -- what users see --------------------------------------------------------------------------------------------------


def test_it_is_said_once_and_shown_by_the_commands() -> None:
    program = f"""
import subprocess, sys
import numpy as np
import kernel

info = kernel.init(num_cpus=1, object_store_memory={STORE})
refs = [kernel.put(np.arange({LARGE} // 8)) for _ in range(3)]
where = info["session_dir"]
for command in ("memory", "status"):
    shown = subprocess.run(
        [sys.executable, "-m", "kernel.cli.main", command, "--address", where], capture_output=True, text=True
    )
    print(shown.stdout, shown.stderr)
"""
    with temporary_root() as root:
        environment = {**os.environ, "KERNEL_TMPDIR": root, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, env=environment
        )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("went into a file in") == 1, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "went into a file in" in line]
    for part in (
        "an object of 24.0 MiB",
        root,
        "it is larger than the object store of 16.0 MiB",
        "raise object_store_memory",
    ):
        assert part in line
    assert "in 3 files for lack of room (overflow)" in done.stdout and " overflow " in done.stdout
    assert "in 3 files" in done.stdout.split("OBJECT STORE")[1].split("\n\n")[0]


# -- several nodes ---------------------------------------------------------------------------------------------------


def test_what_is_larger_than_another_nodes_store_is_fetched_there_and_from_there() -> None:
    with constants(HASTY), Cluster(num_cpus=1, object_store_memory=4 * LARGE) as cluster:
        cluster.add_node(num_cpus=1, resources={"small": 10}, object_store_memory=STORE)
        cluster.connect()
        there = {"resources": {"small": 0.01}, "num_cpus": 0}
        put = kernel.put(block(1, LARGE))
        assert kernel.get(same.options(**there).remote(put, 1), timeout=SECONDS), "from a large store to a small one"
        made = make.options(**there).remote(2, LARGE)
        assert np.array_equal(kernel.get(made, timeout=SECONDS), block(2, LARGE)), "and back"
        assert kernel.get(same.options(**there).remote(made, 2), timeout=SECONDS)
        assert usage()["overflow"] > 0
        del put, made
        gc.collect()
        wait_until(lambda: usage()["overflow_objects"] == usage()["objects"] == 0, SECONDS, "the end of the files")


# -- while it waits --------------------------------------------------------------------------------------------------


def test_ctrl_c_while_it_waits_leaves_nothing() -> None:
    with constants({"kernel_processes.node.store_patience.OVERFLOW_SECONDS": 600.0}):
        with running_session(object_store_memory=STORE) as session:
            held = kernel.get(kernel.put(block(1, STORE * 3 // 4)))

            def press() -> None:
                wait_until(lambda: usage()["waiting"] == 1, SECONDS, "a put that waits")
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=press)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                kernel.put(block(2, STORE // 2))
            thread.join()
            del held
            wait_until(lambda: is_empty(session), SECONDS, "an empty store")
