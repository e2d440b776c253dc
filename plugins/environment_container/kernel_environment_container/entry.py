"""Run in the container, by the image's Python: say what the image has, or run the interpreter that a worker asked for.

`entry.py describe PID BIRTH` prints what it finds, as JSON in one line. `entry.py run PID BIRTH` reads from its
standard input what `launch` wrote, and is the parent of the interpreter from then on.

PID and BIRTH (in clock ticks since the system was booted) identify the process outside that stands for the container.
When it is killed, its container goes on: so this process watches it, and ends the interpreter. The image needs nothing
but Python's own library.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import sys
from typing import Any

LOOK_SECONDS = 0.2
"""Seconds between two looks at processes, where the system has no descriptors of them."""


def main() -> int:
    """Do what the first argument says, and return the exit code."""
    order, client, birth = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if order == "describe":
        print(json.dumps(describe(client, birth)))
        return 0
    if birth_of(client) != birth:
        print("the container does not show the process that started it; it must share the node's process ids")
        return 1
    return end_as(run(pickle.load(sys.stdin.buffer), client, birth))


def describe(client: int, birth: int) -> dict[str, Any]:
    """Return the version of Python, the folders of packages, the variables, and the version of kernel, "" without it.

    `sees` is whether the process outside is seen here.
    """
    import importlib.metadata
    import site

    try:
        kernel = importlib.metadata.version("kernel-spec")
    except importlib.metadata.PackageNotFoundError:
        kernel = ""
    return {
        "python": "{}.{}".format(*sys.version_info[:2]),
        "packages": [path for path in [*site.getsitepackages(), site.getusersitepackages()] if path in sys.path],
        "variables": dict(os.environ),
        "kernel": kernel,
        "sees": birth_of(client) == birth,
    }


def run(message: dict[str, Any], client: int, birth: int) -> int:
    """Run the interpreter and return its wait status.

    `message` has its `arguments`, its `variables`, and the content of its `files` by their descriptors.
    """
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for number, content in message["files"].items():
        os.dup2(file_of(content), number, inheritable=True)
    command = [sys.executable, *message["arguments"]]
    worker = os.fork()
    if worker == 0:
        try:
            os.execve(sys.executable, command, {**os.environ, **message["variables"]})
        finally:
            os._exit(127)
    for number in message["files"]:
        os.close(number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: os.kill(worker, number))
    return await_end(worker, client, birth)


def file_of(content: bytes) -> int:
    """Return the descriptor of a file in memory, to be read from its beginning."""
    descriptor = os.memfd_create("kernel-worker")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def await_end(worker: int, client: int, birth: int) -> int:
    """Return the wait status of the process `worker`, which is killed when the process `client` has ended."""
    watched = [watch for watch in map(descriptor_of, (worker, client)) if watch is not None]
    seconds = None if len(watched) == 2 else LOOK_SECONDS
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            return status
        if birth_of(client) != birth:
            os.kill(worker, signal.SIGKILL)
            return os.waitpid(worker, 0)[1]
        select.select(watched, [], [], seconds)


def descriptor_of(process: int) -> int | None:
    """Return a descriptor that is readable once the process has ended; None where the system gives none."""
    try:
        return os.pidfd_open(process)
    except OSError:
        return None


def birth_of(process: int) -> int | None:
    """Return when a living process was started, in clock ticks since the system was booted; None without it."""
    try:
        with open(f"/proc/{process}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in ("Z", "X") else int(numbers[18])


def end_as(status: int) -> int:
    """Return the exit code of a process with this wait status, as shells have it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
