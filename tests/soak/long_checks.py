"""Checks that take minutes: `python tests/soak/long_checks.py [NAME]...`, by default all of them.

    cycles   200 sessions begun and ended in one program: no descriptor, thread, process, file or memory left
    store    2 GB of live objects in a store of 200 MB, read back in random order, checked by checksum
    large    objects of 1 GB and more, as values, arguments and results
    output   workers that print 2 GB: the logs stay within their bound
    idle     workers that have nothing to do for 20 s retire
    cut      two nodes that can't reach each other for 11 s, though the head reaches both, meet again

Random kills for minutes are in `python -m benchmarks.soak`, all other faults in `python -m benchmarks.chaos`.
"""

from __future__ import annotations

import gc
import hashlib
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import kernel
from benchmarks.chaos.soak import wait_until_empty
from kernel import exceptions
from kernel.runtime.current import get_runtime
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until
from kernel.testing.leaks import no_leaks
from kernel.testing.session import running_session, temporary_root
from kernel_processes.node.log_service import FILE_BYTES, FILES

MB = 1 << 20


@kernel.remote
def double(x: int) -> int:
    return 2 * x


@kernel.remote
class Adder:
    def add(self, array: np.ndarray) -> float:
        return float(array.sum())


def resident_bytes(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def digest(array: Any) -> str:
    return hashlib.blake2b(array, digest_size=16).hexdigest()


def block(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def cycles() -> str:
    def one(root: str) -> None:
        with kernel.init(num_cpus=2, object_store_memory=64 * MB, temp_dir=root):
            assert kernel.get([double.remote(i) for i in range(5)]) == [0, 2, 4, 6, 8]
            assert kernel.get(Adder.remote().add.remote(kernel.put(np.ones(50_000)))) == 50_000

    with temporary_root() as root:
        for _ in range(5):
            one(root)
        gc.collect()
        with no_leaks(root):
            before, begun = resident_bytes(), time.monotonic()
            for _ in range(200):
                one(root)
            seconds = (time.monotonic() - begun) / 200
            gc.collect()
            grown = resident_bytes() - before
    assert grown < 16 * MB, f"200 cycles grew this process by {grown} bytes"
    return f"200 cycles of {seconds:.2f} s, {grown / MB:.1f} MB grown"


def store() -> str:
    with running_session(object_store_memory=200 * MB):
        begun = time.monotonic()
        digests, refs = [], []
        for number in range(250):
            array = block(number, 8 * MB)
            digests.append(digest(array))
            refs.append(kernel.put(array))
        order = list(range(250))
        random.Random(1).shuffle(order)
        assert all(digest(kernel.get(refs[number])) == digests[number] for number in order)
        usage = get_runtime().query("memory")["usage"]
        assert usage["used"] <= 200 * MB
        return f"2 GB through 200 MB in {time.monotonic() - begun:.1f} s, {usage['spilled'] / MB:.0f} MB on disk"


def large() -> str:
    @kernel.remote
    def echo(array: np.ndarray) -> np.ndarray:
        return array

    with running_session(object_store_memory=5 << 30):
        begun = time.monotonic()
        for size in (1 << 30, (1 << 30) + 1, 1_500_000_001):
            array = np.arange(size // 8)
            assert np.array_equal(kernel.get(echo.remote(kernel.put(array))), array)
        return f"three objects of 1 to 1.5 GB in {time.monotonic() - begun:.1f} s"


def output() -> str:
    @kernel.remote
    def shout(megabytes: int) -> int:
        line = "x" * 1023
        for _ in range(megabytes * 1024):
            print(line)
        return megabytes

    with running_session(num_cpus=2, log_to_driver=False) as session:
        before = resident_bytes(session.agent)
        assert kernel.get([shout.remote(512) for _ in range(4)]) == [512] * 4
        grown = resident_bytes(session.agent) - before
        kept = sum(file.stat().st_size for file in Path(session.directory, "logs").iterdir())
        assert kept <= FILE_BYTES * FILES + (8 << 20), kept
        assert grown < 64 * MB, grown
        return f"2 GB printed, {kept / MB:.0f} MB kept, the agent grew by {grown / MB:.0f} MB"


def idle() -> str:
    @kernel.remote(num_cpus=0.25)
    def nap() -> int:
        time.sleep(0.5)
        return os.getpid()

    with running_session(num_cpus=1) as session:
        started = len(set(kernel.get([nap.remote() for _ in range(8)])))
        assert started >= 3
        wait_until(lambda: len(session.workers()) == 1, 40, "the end of idle workers")
        return f"of {started} workers one is left"


@kernel.remote(num_cpus=0, resources={"one": 0.01})
class Caller:
    """Calls another actor, and says what came of it."""

    def __init__(self, other: Any) -> None:
        self.other = other

    def call(self, retries: int = 0) -> Any:
        try:
            return kernel.get(self.other.up.options(max_task_retries=retries).remote(), timeout=60.0)
        except exceptions.ActorUnavailableError as error:
            return f"unavailable: {error}"

    def read(self, refs: list[kernel.ObjectRef]) -> int:
        return int(kernel.get(refs[0], timeout=60.0).sum())


@kernel.remote(num_cpus=0, resources={"other": 0.01}, max_restarts=1)
class Counter:
    def __init__(self) -> None:
        self.count = 0

    def up(self) -> int:
        self.count += 1
        return self.count


def cut() -> str:
    with Cluster(num_cpus=1, faulty_network=True) as cluster:
        one, other = (cluster.add_node(num_cpus=1, resources={name: 1}) for name in ("one", "other"))
        cluster.connect()
        counter = Counter.remote()
        caller = Caller.remote(counter)
        assert kernel.get(caller.call.remote(), timeout=60.0) == 1
        with cluster.partitioned(one, other):
            cluster.reset(one, other)
            lost = caller.call.remote()
            time.sleep(11.0)  # longer than both sides wait for each other
        assert "unavailable: Counter.up() may or may not have run" in str(kernel.get(lost, timeout=60.0))
        again = kernel.get(caller.call.remote(-1), timeout=60.0)
        assert again in (2, 3), "it is the same life of the actor"
        ref = kernel.put(np.ones(200_000))
        assert kernel.get(caller.read.remote([ref]), timeout=60.0) == 200_000
        assert [row["Alive"] for row in kernel.nodes()] == [True] * 3
        del counter, caller, ref, lost
        assert wait_until_empty() == []
    return "two nodes were cut off from each other for 11 s, and met again"


CHECKS = {check.__name__: check for check in (cycles, store, large, output, idle, cut)}

if __name__ == "__main__":
    for name in sys.argv[1:] or CHECKS:
        print(f"{name:8}", CHECKS[name](), flush=True)
