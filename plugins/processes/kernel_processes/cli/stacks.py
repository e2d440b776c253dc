"""Read stacks of threads, from py-spy or from the processes themselves, and show the kernel's frames summarised."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

import kernel_processes.own_code  # noqa: F401  (registers the engine's folders for `is_internal`)
from kernel.cli import display
from kernel.runtime.remote_traceback import is_internal
from kernel_processes.runtime.stacks import ThreadStack

_DUMP_SECONDS = 10.0
"""Seconds to wait for py-spy."""


class Frame(NamedTuple):
    """A frame of a stack. `line` is its current line number."""

    function: str
    file: str
    line: int

    @property
    def is_kernel(self) -> bool:
        """Whether the frame is in the kernel's own code."""
        return is_internal(self.file)


class Thread(NamedTuple):
    """A thread and its frames, innermost first."""

    id: int
    name: str
    frames: list[Frame]


def from_process(stacks: Sequence[ThreadStack]) -> list[Thread]:
    """Convert the stacks that a process has reported."""
    return [Thread(ident, name, [Frame(*frame) for frame in frames]) for ident, name, frames in stacks]


def find_spy() -> str | None:
    """Return the path of py-spy, or None when it is not installed."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))


def from_spy(spy: str, pid: int) -> list[Thread] | None:
    """Return the stacks that the py-spy at `spy` reads of a process, main thread first, or None when it fails."""
    try:
        done = subprocess.run(
            [spy, "dump", "--json", "--full-filenames", "--pid", str(pid)],
            capture_output=True,
            timeout=_DUMP_SECONDS,
        )
        threads: list[dict[str, Any]] = json.loads(done.stdout) if done.returncode == 0 else []
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    found = [
        Thread(
            thread["os_thread_id"] or thread["thread_id"],
            thread["thread_name"] or "unnamed",
            [Frame(frame["name"], frame["filename"], frame["line"]) for frame in thread["frames"]],
        )
        for thread in threads
    ]
    return sorted(found, key=lambda thread: thread.name != "MainThread") or None


def show(threads: Sequence[Thread], full: bool) -> None:
    """Print the threads of a process; unless `full`, each run of kernel frames is shown as one line."""
    for thread in threads:
        lines = list(_lines(thread.frames, full))
        if len(lines) == 1 and not lines[0][1]:
            click.echo(f"  {thread.name}  {display.dim(lines[0][0])}")
            continue
        click.echo(f"  {thread.name}")
        width = max((len(function) for function, place in lines if place), default=0)
        for function, place in lines:
            click.echo(f"    {function:<{width}}  {place}" if place else display.dim(f"    {function}"))


def _lines(frames: Sequence[Frame], full: bool) -> Iterator[tuple[str, str]]:
    """Yield function and place of each frame; a summary of omitted frames has "" as its place."""
    outermost = max((index for index, frame in enumerate(frames) if frame.is_kernel), default=len(frames))
    left_out: list[Frame] = []
    for index, frame in enumerate(frames):
        # Frames outside of the kernel's outermost frame only started the thread.
        if not full and (frame.is_kernel or index > outermost):
            left_out.append(frame)
            continue
        if left_out:
            yield _summary(left_out), ""
            left_out = []
        yield frame.function, f"{frame.file}:{frame.line}"
    if left_out:
        yield _summary(left_out), ""


def _summary(frames: Sequence[Frame]) -> str:
    innermost = frames[0]
    place = f"{_short(innermost.file)}:{innermost.line}"
    return (
        f"{display.ellipsis()} {display.count(len(frames), 'frame')} of the kernel, in {innermost.function} ({place})"
    )


def _short(file: str) -> str:
    """Return the path of one of the kernel's files relative to its package."""
    parts = file.split(os.sep)
    return "/".join(parts[max(i for i, part in enumerate(parts) if part.split("_")[0] == "kernel") + 1 :])
