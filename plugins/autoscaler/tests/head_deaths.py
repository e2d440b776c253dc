"""A real cluster whose head is killed while machines are ordered, start, work, drain or end."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernel_autoscaler.loopback import LoopbackProvider

from kernel.testing.command_line import CommandLine
from kernel.testing.faults import kill, title_of, wait_until
from kernel.testing.session import temporary_root

SECONDS = 120.0
KINDS = {"two": {"CPU": 2}}
MAXIMUM = 2
CONFIGURATION = f"""
provider = "loopback"
[provider_options.kinds]
two = {{CPU = 2}}
[settings]
idle_seconds = 2
maximum_nodes = {MAXIMUM}
"""
PROGRAM = """
import sys, time
import kernel

@kernel.remote(max_retries=-1)
def work():
    time.sleep(1)
    return 1

with kernel.init(address="auto", log_to_driver=False):
    for line in sys.stdin:
        print(sum(kernel.get([work.remote() for _ in range(6)], timeout=120)), flush=True)
"""


class MortalCluster:
    """A head with an autoscaler, and a program that gives it work."""

    def __init__(self, root: str) -> None:
        file = Path(root) / "autoscaler.toml"
        file.write_text(CONFIGURATION)
        self.line = CommandLine(root, KERNEL_OPTION_AUTOSCALER_CONFIG=str(file))
        started = self.line.start("--num-cpus", "0", "--port", "0", "--head-service", "autoscaler")
        self.agent = int(started["agent_pid"])
        session = str(self.line.json("status")["session"])
        self.provider = LoopbackProvider({"session": session, "kinds": KINDS})
        self.program = self.line.program(PROGRAM)

    def run(self, delay: float) -> list[str]:
        """Give work, kill the head `delay` seconds later, and return what is wrong when all is over."""
        assert self.program.stdin is not None and self.program.stdout is not None
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        seen: set[str] = set()
        end, killed, left = time.monotonic() + delay, False, True
        deadline = end + SECONDS
        while (left or not killed) and time.monotonic() < deadline:
            listed = self.provider.list()
            seen |= {node.id for node in listed}
            left = bool(listed) or not seen
            if not killed and time.monotonic() >= end:
                killed = True
                self._kill_head()
            time.sleep(0.02)
        done = self.program.stdout.readline().strip()
        found = {
            f"{done or 'no'} of 6 tasks have ended": done != "6",
            f"{len(seen)} machines were made for {MAXIMUM}": len(seen) > MAXIMUM,
            f"{[node.id for node in self.provider.list()]} were left": left,
        }
        return [text for text, wrong in found.items() if wrong]

    def close(self) -> list[str]:
        """End it all, and return which machines are still there."""
        self.program.kill()
        self.program.communicate()
        self.line.end()
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not self.provider.list(), 20.0, "all machines to end")
        return [node.id for node in self.provider.list()]

    def _kill_head(self) -> None:
        """End the head's process; its agent starts another."""
        wait_until(lambda: _heads(self.agent), SECONDS, "a head")
        old = set(_heads(self.agent))
        for pid in old:
            kill(pid)
        wait_until(lambda: not old & set(_heads(self.agent)), SECONDS, "the end of the head")


def _heads(agent: int) -> Sequence[int]:
    """Return the heads that an agent has started and that live: one, unless it is between two."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_child = f"\nPPid:\t{agent}\n" in (directory / "status").read_text()
            if is_child and title_of(int(directory.name)) == "kernel: head":
                found.append(int(directory.name))
    return found


@contextlib.contextmanager
def mortal_cluster() -> Iterator[MortalCluster]:
    """Start a cluster, and end it."""
    with temporary_root() as root:
        cluster = MortalCluster(root)
        try:
            yield cluster
        finally:
            left = cluster.close()
            assert not left, f"{left} outlived the cluster, of process {os.getpid()}"
