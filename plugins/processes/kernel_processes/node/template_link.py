"""Hold the agent's end of the template: ask it to fork, learn which workers exited, start another if it dies."""

from __future__ import annotations

import marshal
import os
import pickle
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.node.template import ANSWER_BYTES
from kernel_processes.node.template_messages import (
    ForkFailed,
    ForkWorker,
    LoadSession,
    WorkerExited,
    WorkerForked,
    send_message,
)
from kernel_processes.node.template_process import TemplateProcess, run_template
from kernel_processes.transport.reactor import Reactor

ASKED_AT_ONCE = 64
"""The most workers requested of a template without an answer: few enough that asking never blocks."""
_FORKED, _EXITED = number_of(WorkerForked), number_of(WorkerExited)


class TemplateLink:
    """Runs one template process at a time. Callbacks run in the loop."""

    def __init__(
        self,
        reactor: Reactor,
        preload: Sequence[str],
        on_forked: Callable[[bytes, int], None],
        on_failed: Callable[[bytes, str], None],
        on_exited: Callable[[int, int], None],
        on_lost: Callable[[], None],
        first: tuple[socket.socket, TemplateProcess] | None = None,
    ) -> None:
        self._reactor = reactor
        self._preload = list(preload)
        self._on_forked, self._on_failed, self._on_exited = on_forked, on_failed, on_exited
        self._on_lost = on_lost
        self._link: socket.socket | None = None
        self._session: bytes | None = None
        self._queue: deque[tuple[dict[str, Any], list[int]]] = deque()
        self._asked = 0
        self.pid = 0
        self.failures = 0
        """The number of templates in a row that ended by themselves without having forked a worker."""
        self.status = 0
        """The exit code of the last template, or a signal as a negative number."""
        self._process: TemplateProcess | None = None
        self._log = Logger("kernel.node")
        self.start(first)

    def start(self, begun: tuple[socket.socket, TemplateProcess] | None = None) -> None:
        """Start a template, or take over one that has begun; send it the session at once, if that is known.

        Raises OSError when it can't be started.
        """
        self._link, self._process = begun or run_template(self._preload)
        self.pid = self._process.pid
        self._reactor.register(self._link.fileno(), self._on_ready)
        if self._session is not None:
            self._tell_session()

    def load(self, session: dict[str, Any]) -> None:
        """Send the session's settings to the template, and to every one that replaces it."""
        self._session = pickle.dumps(session)
        self._tell_session()

    def fork(self, worker: dict[str, Any], descriptors: list[int]) -> None:
        """Ask for a worker whose standard output and error are `descriptors`, which are closed here."""
        self._queue.append((worker, descriptors))
        self._ask()

    def close(self) -> None:
        """End the template, which ends what is left of its workers."""
        if self._link is not None:
            self._unlink()
        if self._process is not None:
            try:
                self._process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _unlink(self) -> None:
        assert self._link is not None
        self._reactor.unregister(self._link.fileno())
        self._link.close()
        self._link = None
        self._asked = 0
        while self._queue:
            _close(self._queue.pop()[1])

    def _tell_session(self) -> None:
        assert self._link is not None and self._process is not None and self._session is not None
        try:
            send_message(self._link, packed(LoadSession(session=self._session)), [])
        except OSError as error:
            self._log.error("the session's settings could not be sent to the template", error=str(error))
            self._process.terminate()  # the loop learns of its end

    def _ask(self) -> None:
        while self._queue and self._asked < ASKED_AT_ONCE:
            worker, descriptors = self._queue.popleft()
            try:
                if self._link is None:
                    self.start()
                assert self._link is not None
                send_message(self._link, packed(ForkWorker(worker=worker)), descriptors)
                self._asked += 1
            except ConnectionError:
                return  # the loop learns of its end
            except OSError as error:
                self._on_failed(worker["id"], f"the template could not be asked for it: {error.strerror}")
            finally:
                _close(descriptors)

    def _on_ready(self, events: int) -> None:
        assert self._link is not None
        try:
            data = self._link.recv(ANSWER_BYTES)
        except OSError:
            data = b""
        if data:
            self._on_answer(marshal.loads(data))
        else:
            self._on_end()

    def _on_answer(self, message: Message) -> None:
        if message[0] == _EXITED:
            self._on_exited(*unpacked(WorkerExited, message))
            return
        self._asked -= 1
        if message[0] == _FORKED:
            self.failures = 0
            self._ask()
            self._on_forked(*unpacked(WorkerForked, message))
        else:
            self._ask()
            self._on_failed(*unpacked(ForkFailed, message))

    def _on_end(self) -> None:
        self._unlink()
        assert self._process is not None
        self.status = self._process.wait()
        if self.status != -signal.SIGKILL:  # A killed template says nothing about the next one.
            self.failures += 1
        self._on_lost()


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
