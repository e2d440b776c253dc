"""A watch over the loops of node agents and heads: what in them waits for a file, and how much one turn works.

with watched_loops() as watch:
    with kernel.init(num_cpus=2):
        ...
assert watch.findings() == []

What is counted does not depend on how busy the machine is: calls that touch files, as the interpreter reports them to
an audit hook, and the processor time of the loop's own thread. What is imported when it is first needed counts for
neither: that happens once in the life of a process.
"""

from __future__ import annotations

import builtins
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from kernel_spec.dataclass import dataclass

TURN_SECONDS = 0.1
"""How much processor time one turn of a loop may take."""
_LOOPS = {"kernel_processes.daemons.agent_main": "agent", "kernel_processes.daemons.head_main": "head"}
"""Modules that are run as processes, and the loop that each has."""
_WAITS = {"open", "time.sleep", "socket.getaddrinfo", "socket.gethostbyname", "glob.glob", "os.listdir", "os.scandir"}
_WAITS |= {f"os.{name}" for name in ("remove", "rename", "rmdir", "mkdir", "chmod", "link", "symlink", "truncate")}
_WITHOUT_EVENT = ("stat", "lstat", "access", "statvfs", "fsync", "fdatasync", "posix_fallocate")
"""Functions of `os` that may wait for a file and that no audit hook hears of."""
_NO_FILES = ("/proc", "/sys/", "/dev/null")
"""What lies there is made by the machine when it is read."""
_NUMBER = re.compile(r"[0-9.]+|[0-9a-fA-F:.%]*:[0-9a-fA-F:.%]*")
"""A host given by its number."""
_DEEP = 6
"""How many callers a finding names."""


@dataclass(slots=True)
class LoopWatch:
    """What was found in the loops of the processes that started under the watch."""

    directory: str

    def findings(self, *allowed: str) -> list[str]:
        """Return a line per finding, but those that contain one of `allowed`."""
        lines = self._lines("finding")
        return [line for line in lines if not any(word in line for word in allowed)]

    def loops(self) -> set[str]:
        """Return the loops that were watched: "agent", "head"."""
        return set(self._lines("loop"))

    def longest_turn(self) -> float:
        """Return the most processor time that one turn took, in seconds."""
        return max(map(float, self._lines("turn")), default=0.0)

    def _lines(self, kind: str) -> list[str]:
        found = []
        for path in sorted(Path(self.directory).glob("*.watch")):
            rows = (line.partition(" ") for line in path.read_text(encoding="utf-8").splitlines())
            found += [rest for name, _, rest in rows if name == kind]
        return found


@contextmanager
def watched_loops() -> Iterator[LoopWatch]:
    """Watch the loops of agents and heads that start inside the block."""
    with tempfile.TemporaryDirectory() as directory:
        lines = ["from kernel_testing.loop_watch import begin", f"begin({directory!r})", ""]
        Path(directory, "sitecustomize.py").write_text("\n".join(lines), encoding="utf-8")
        sys.path.insert(0, directory)  # which agents inherit, and heads from them
        try:
            yield LoopWatch(directory)
        finally:
            sys.path.remove(directory)


def begin(directory: str) -> None:
    """Watch this process, if it is to be an agent or a head, and report into `directory`. Called when Python starts."""
    command = " ".join(sys.orig_argv)
    loop = next((name for module, name in _LOOPS.items() if f"from {module} import" in command), "")
    if loop:
        _Watcher(os.path.join(directory, f"{loop}-{os.getpid()}.watch"), loop).install()


class _Watcher:
    """The watch over one process, whose loop is run by the main thread."""

    def __init__(self, path: str, loop: str) -> None:
        self._report = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._loop = loop
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._longest = 0.0
        self._turn_began = 0.0
        self._importing = False
        self._imported = 0.0
        """Processor time that imports of this turn took."""
        self._serves = False
        self._reporting = False
        self._found: set[tuple[str, str]] = set()
        """The reports, once each."""

    def install(self) -> None:
        from kernel_processes.transport.reactor import Reactor

        self._say("loop", self._loop)
        poll = Reactor.poll

        def timed_poll(reactor: Reactor, timeout: float = -1.0) -> bool:
            self._end_turn()
            return poll(reactor, timeout)

        Reactor.poll = timed_poll  # type: ignore[method-assign]
        for name in _WITHOUT_EVENT:
            self._wrap(name)
        builtins.__import__ = self._timed(builtins.__import__)
        sys.addaudithook(self._heard)

    def _wrap(self, name: str) -> None:
        function = getattr(os, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            self._note(f"os.{name}", arguments)
            return function(*arguments, **named)

        setattr(os, name, wrapped)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that imports, with the time that it takes counted."""

        def timed(*arguments: Any, **named: Any) -> Any:
            if self._importing or not self._is_ours():
                return function(*arguments, **named)
            self._importing, began = True, time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self._imported += time.thread_time() - began
                self._importing = False

        return timed

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _WAITS or event.startswith(("shutil.", "tempfile.")):
            self._note(event, arguments)

    def _end_turn(self) -> None:
        if not self._is_ours():
            return
        now = time.thread_time()
        took, self._turn_began, self._imported = now - self._turn_began - self._imported, now, 0.0
        serves, self._serves = self._serves, self._in_loop(sys._getframe())
        if not serves:
            return
        if took > self._longest:
            self._longest = took
            self._say("turn", f"{took:.4f}")
        if took > TURN_SECONDS:
            self._say("finding", f"{self._loop}: a turn took {took:.3f} s of processor time")

    def _note(self, what: str, arguments: tuple[Any, ...]) -> None:
        if self._reporting or not self._is_ours():
            return
        first = os.fsdecode(arguments[0]) if arguments and isinstance(arguments[0], (str, bytes)) else ""
        if what == "socket.getaddrinfo" and _NUMBER.fullmatch(first):
            return  # it is turned into bytes; nobody is asked
        if (what == "open" and not first) or first.startswith(_NO_FILES):
            return  # a descriptor; or no file
        frame = sys._getframe(2)
        if self._in_loop(frame) and not _is_import(frame):
            self._reporting = True
            callers = " < ".join(_callers(frame))
            if (what, callers) not in self._found:
                self._found.add((what, callers))
                self._say("finding", f"{self._loop}: {what}({first}) in {callers}")
            self._reporting = False

    def _is_ours(self) -> bool:
        """Return whether this is the thread of the loop, and not a forked child."""
        return threading.get_ident() == self._thread and os.getpid() == self._process

    @staticmethod
    def _in_loop(frame: FrameType | None) -> bool:
        """Return whether `frame` is in a turn of a loop that serves: not before, and not in what comes after it."""
        serving = False
        while frame is not None:
            name = frame.f_code.co_name
            if name == "shut_down":
                return False
            serving = serving or name == "turn"
            frame = frame.f_back
        return serving

    def _say(self, kind: str, text: str) -> None:
        os.write(self._report, f"{kind} {text}\n".encode("utf-8", "replace"))


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _callers(frame: FrameType | None) -> Iterator[str]:
    for _ in range(_DEEP):
        if frame is None:
            return
        yield f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
