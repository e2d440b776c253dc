"""The process that stands for one machine of the provider `loopback`: it starts a node, and cleans up when that ends.

    python -m kernel_autoscaler.loopback_node DIRECTORY COMMAND...

COMMAND starts the node. What it prints becomes `start.json` in DIRECTORY. If `node.json` there says that the machine
has ended meanwhile, so does the node. When the cluster ends, this process may be ended first: what the node leaves is
then removed as that of any node, when the next one is started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

REMOVE_SECONDS = 10.0
"""Seconds for which the directory of a node that has ended is tried to be removed."""


def main() -> int:
    """Start the node, wait for its end, and remove what it leaves; return the exit code."""
    directory, *command = sys.argv[1:]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if done.returncode:
        return done.returncode
    new = Path(directory) / "start.new"
    new.write_bytes(done.stdout)
    new.replace(Path(directory) / "start.json")
    started = json.loads(done.stdout)
    _wait_for_end(int(started["agent_pid"]), Path(directory) / "node.json")
    _remove(Path(started["directory"]))
    return 0


def _wait_for_end(agent: int, file: Path) -> None:
    """Return when the agent has ended; end it if the machine was terminated before it was there."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(agent)
        if json.loads(file.read_text())["ended"]:
            signal.pidfd_send_signal(watched, signal.SIGTERM)
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.poll()


def _remove(place: Path) -> None:
    """Remove a directory in which processes that are ending, after the agent was killed, may still write."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while place.exists() and time.monotonic() < deadline:
        shutil.rmtree(place, ignore_errors=True)
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
