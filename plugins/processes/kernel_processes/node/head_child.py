"""Run the head as a child of its node's agent: start it, restart it when it dies, and end it with the session."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
from collections.abc import Callable

from kernel.logs import Logger
from kernel_processes.node.failed_starts import FailedStarts
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.system.children import let_go, open_log, start_child
from kernel_processes.system.starting import why_no_process
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import HeadReplacedError, KernelError, MetadataError, SessionEndedError

START_SECONDS = 20.0
END_SECONDS = 3.0
LOOK_SECONDS = 0.05
RETRY_SECONDS = 0.5


class HeadChild:
    """Runs one head process at a time, whose program is the module `program` (see `children.start_child`)."""

    def __init__(self, config: AgentConfig, program: str) -> None:
        self._config = config
        self._program = program
        self._log = Logger("kernel.node")
        self._errors = open_log(
            config.directory, "head.err"
        )  # Opened now, because a loop that restarts the head must not wait for a disk.
        self._serves = True
        """Whether the head that was started last has served."""
        self._failed_starts = FailedStarts("head")
        """Without those that could not use their metadata store: a full disk and a server that is away may come right,
        for as long as nodes look for a head."""
        self._storeless = ""
        """The error of the metadata store that kept the latest head from serving, otherwise ""."""
        self._died_at = self._not_before = 0.0
        self._awaits_report = False
        """Whether the first report of the latest head is still awaited."""
        self._closing = False
        self._process, reader = self._launch()
        self._await(reader)

    @property
    def pid(self) -> int:
        """The process id of the head."""
        return self._process.pid

    def supervise(self, reactor: Reactor, durable: bool, on_end: Callable[[str], None]) -> None:
        """Restart the head whenever it dies. If its metadata is not durable or restarts fail, call `on_end(why)`."""
        self._reactor, self._durable, self._on_end = reactor, durable, on_end
        reactor.call_later(LOOK_SECONDS, self._look)

    def close(self) -> None:
        """End the head if it has not ended, and wait for it."""
        self._closing = True
        let_go(self._process)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()

    def _look(self) -> None:
        if self._closing:
            return
        self._reactor.call_later(LOOK_SECONDS, self._look)
        code, now = self._process.poll(), self._reactor.clock()
        if code is None or self._awaits_report or now < self._not_before:
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._died_at = self._died_at or now
        if not self._serves and not self._storeless:
            self._failed_starts.add(now if code == -signal.SIGKILL else None)
        if reason := self._reason_to_give_up(how, now - self._died_at):
            self._closing = True
            self._on_end(reason)
            return
        if not self._storeless:
            self._log.warning("the head died and is started again", how=how)
        let_go(self._process)
        self._process, reader = self._launch()
        self._serves, self._awaits_report = False, True
        self._reactor.register(reader, lambda events: self._started(reader))

    def _reason_to_give_up(self, how: str, away_seconds: float) -> str:
        if not self._durable:
            return f"the head died ({how}), and its metadata store is not durable, so no other head can take over"
        if self._failed_starts.enough:
            return f"{self._failed_starts}, the last one with {how}; look at the end of {self._errors.name}"
        if self._storeless and away_seconds > self._config.head_away_seconds:
            return f"the head died, and for {away_seconds:.0f} s no other could be started: {self._storeless}"
        return ""

    def _started(self, reader: int) -> None:
        """The head that was started again says whether it serves; if not, it ends by itself, which is seen."""
        self._reactor.unregister(reader)
        data = os.read(reader, 1 << 16)
        os.close(reader)
        self._awaits_report = False
        error = pickle.loads(data) if data else None
        if data and error is None:
            self._serves, self._failed_starts = True, FailedStarts("head")
            self._storeless, self._died_at = "", 0.0
        elif isinstance(error, MetadataError) and not isinstance(error, HeadReplacedError):
            if not self._storeless:
                self._log.error("the head can't start before its metadata store works; trying on", reason=str(error))
            self._failed_starts, self._storeless = FailedStarts("head"), str(error)
            self._not_before = self._reactor.clock() + RETRY_SECONDS
        elif error is not None:
            self._log.error("the head can't start", reason=str(error))

    def _launch(self) -> tuple[subprocess.Popen[bytes], int]:
        try:
            return start_child(self._program, self._config, self._errors.fileno())
        except OSError as error:
            raise SessionEndedError(f"the head can't be started: {why_no_process(error)}") from error

    def _await(self, reader: int) -> None:
        ready, _, _ = select.select([reader], [], [], START_SECONDS)
        data = os.read(reader, 1 << 16) if ready else b""
        os.close(reader)
        if not data:
            self._process.kill()
            code = self._process.wait()
            raise SessionEndedError(
                f"the head did not start (exit code {code}); look at the end of {self._errors.name}"
            )
        error = pickle.loads(data)
        if isinstance(error, KernelError):
            self._process.wait()
            raise error
