"""Read the output of workers from their pipes, keep it in one bounded file, and show it to their drivers."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field

from kernel_engine.messages.process_messages import UNFINISHED
from kernel_processes.protocol.named_output import by_name, without_overwritten
from kernel_processes.system.log_writer import LogWriter, left_out_note
from kernel_processes.system.rotating_file import RotatingFile
from kernel_processes.transport.reactor import Reactor
from kernel_spec.dataclass import dataclass

FILE_BYTES = 16 << 20
FILES = 4
"""Number of files, the newest and its predecessors, of FILE_BYTES each."""
NOBODY = "-" * 8
"""Stands in place of the worker in lines of the log itself."""
_LINE_LIMIT = 16 << 10
_TELL_SECONDS = 0.1
"""Seconds between two updates of a line that is overwritten repeatedly."""
_TAIL_LINES = 60
_TAILS_KEPT = 64
"""Number of ended workers whose last lines are kept, for late questions about how one died."""


@dataclass(slots=True)
class Tail:
    """Keeps the last lines that a worker wrote to its standard error, for the message about its death."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    streams: int = 0
    origin: tuple[int, str] = (0, "")


@dataclass(slots=True)
class OutputPipe:
    """Holds the state of one pipe of one worker."""

    worker: bytes
    name: str
    descriptor: int
    tail: Tail
    rest: bytes = b""
    is_told: bool = False
    """Whether an update of `rest`, a line that is overwritten repeatedly, is about to be shown."""


class LogService:
    """Reads the output of workers, and passes complete lines to `on_lines(worker, name, stream, lines)`, from the loop.

    With `stream` "stdout~" or "stderr~" it passes the present text of a line that carriage returns overwrite;
    the file gets only the final text.
    `name` is the task that wrote the lines, or else the actor's class, or "". `origin(worker)` returns the pid of a
    worker and the class of the actor that it is, or None when it is gone; then the last answer holds. A line of the
    file is: seconds since the epoch, worker (8 digits), pid, name, `out` or `err`, text; between them tabs.
    """

    def __init__(
        self,
        reactor: Reactor,
        directory: str,
        origin: Callable[[bytes], tuple[int, str] | None],
        on_lines: Callable[[bytes, str, str, list[str]], None],
    ) -> None:
        self._reactor = reactor
        file = RotatingFile(os.path.join(directory, "workers.log"), FILE_BYTES, FILES)
        file.open()
        self._file = LogWriter(file, lambda count: f"{time.time():.3f}\t{NOBODY}\t0\t\terr\t{left_out_note(count)}")
        self._origin = origin
        self._on_lines = on_lines
        self._streams: dict[int, OutputPipe] = {}
        self._tails: dict[bytes, Tail] = {}

    def open(self, worker: bytes) -> list[int]:
        """Return the write ends of two new pipes for the worker's output and error. Raises OSError: no more pipes."""
        output = os.pipe()
        try:
            errors = os.pipe()
        except OSError:
            for end in output:
                os.close(end)
            raise
        ends = []
        tail = self._tails[worker] = Tail(streams=2)
        for name, (reader, writer) in (("stdout", output), ("stderr", errors)):
            os.set_blocking(reader, False)
            stream = self._streams[reader] = OutputPipe(worker, name, reader, tail)
            self._reactor.register(reader, lambda events, s=stream: self._read(s))  # type: ignore[misc]
            ends.append(writer)
        return ends

    def tail(self, worker: bytes) -> list[str]:
        """Return the last lines of the worker's standard error, and forget them."""
        for stream in [s for s in self._streams.values() if s.worker == worker]:
            self._read(stream)
        tail = self._tails.pop(worker, None)
        return list(tail.lines) if tail is not None else []

    def drain(self) -> None:
        """Read the rest of every pipe, including unfinished lines."""
        for stream in list(self._streams.values()):
            self._read(stream)
            if stream.rest:
                rest, stream.rest = stream.rest, b""
                self._take(stream, [rest])

    def close(self) -> None:
        """Close everything."""
        for stream in list(self._streams.values()):
            self._close(stream)
        self._file.close()

    def _read(self, stream: OutputPipe) -> None:
        for _ in range(16):
            try:
                data = os.read(stream.descriptor, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                if stream.rest:
                    self._take(stream, [stream.rest])
                self._close(stream)
                return
            *lines, stream.rest = (stream.rest + data).split(b"\n")
            if b"\r" in stream.rest:
                stream.rest = without_overwritten(stream.rest)
                self._tell_soon(stream)
            if len(stream.rest) > _LINE_LIMIT:
                lines.append(stream.rest)
                stream.rest = b""
            if lines:
                self._take(stream, lines)

    def _tell_soon(self, stream: OutputPipe) -> None:
        if not stream.is_told:
            stream.is_told = True
            self._reactor.call_later(_TELL_SECONDS, lambda: self._tell_unfinished(stream))

    def _tell_unfinished(self, stream: OutputPipe) -> None:
        """Report the present text of a line that is overwritten, such as a progress bar."""
        stream.is_told = False
        if stream.descriptor in self._streams and b"\r" in stream.rest:
            _, actor = self._origin(stream.worker) or stream.tail.origin
            ((task, texts),) = by_name([stream.rest])
            self._on_lines(stream.worker, task or actor, stream.name + UNFINISHED, texts)

    def _take(self, stream: OutputPipe, lines: list[bytes]) -> None:
        tail = stream.tail
        tail.origin = pid, actor = self._origin(stream.worker) or tail.origin
        for task, texts in by_name(lines):
            name = task or actor
            if stream.name == "stderr":
                tail.lines.extend(texts)
            prefix = f"{time.time():.3f}\t{stream.worker.hex()[:8]}\t{pid}\t{name}\t{stream.name[3:]}\t"
            self._file.write("".join(f"{prefix}{text}\n" for text in texts))
            self._on_lines(stream.worker, name, stream.name, texts)

    def _close(self, stream: OutputPipe) -> None:
        if self._streams.pop(stream.descriptor, None) is None:
            return
        self._reactor.unregister(stream.descriptor)
        os.close(stream.descriptor)
        stream.tail.streams -= 1
        if not stream.tail.streams and stream.worker in self._tails:
            self._tails[stream.worker] = self._tails.pop(stream.worker)  # Move it behind the others that have ended.
            ended = [worker for worker, tail in self._tails.items() if not tail.streams]
            for worker in ended[:-_TAILS_KEPT]:
                del self._tails[worker]
