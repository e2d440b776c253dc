"""The agent's end of the template: starts it, asks it to fork, hears who exited, starts another if it dies."""

from __future__ import annotations

import marshal
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kernel.node.template import PACKET
from kernel.transport.reactor import Reactor


class TemplateLink:
    """One template process at a time. Callbacks run in the loop."""

    def __init__(
        self,
        reactor: Reactor,
        preload: Sequence[str],
        on_forked: Callable[[bytes, int], None],
        on_failed: Callable[[bytes, str], None],
        on_exited: Callable[[int, int], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._reactor = reactor
        self._preload = list(preload)
        self._callbacks = {"forked": on_forked, "failed": on_failed, "exited": on_exited}
        self._on_lost = on_lost
        self._link: socket.socket | None = None
        self._loaded: bytes | None = None
        self._pending: list[tuple[dict[str, Any], list[int]]] = []
        self.pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start a template; if the session is known it is told at once."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * PACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kernel.node.template", str(theirs.fileno()), *self._preload],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
        self.pid = self._process.pid
        theirs.close()
        ours.setblocking(True)
        self._link = ours
        self._reactor.register(ours.fileno(), self._on_ready)
        if self._loaded is not None:
            self._send(("load", self._loaded), [])

    def load(self, session: dict[str, Any]) -> None:
        """Tell the template about the session; workers asked for earlier are forked now."""
        self._loaded = pickle.dumps(session)
        self._send(("load", self._loaded), [])
        pending, self._pending = self._pending, []
        for worker, descriptors in pending:
            self.fork(worker, descriptors)

    def fork(self, worker: dict[str, Any], descriptors: list[int]) -> None:
        """Ask for a worker whose standard output and error are `descriptors`, which are closed here."""
        if self._loaded is None:
            self._pending.append((worker, descriptors))
            return
        self._send(("fork", worker), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def close(self) -> None:
        """End the template, which ends what is left of its workers."""
        if self._link is not None:
            self._reactor.unregister(self._link.fileno())
            self._link.close()
            self._link = None
        if self._process is not None:
            try:
                self._process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _send(self, message: tuple[Any, ...], descriptors: list[int]) -> None:
        if self._link is None:
            return
        try:
            socket.send_fds(self._link, [marshal.dumps(message)], descriptors)
        except OSError:
            return  # the loop learns of its end, and workers that never come are started again

    def _on_ready(self, events: int) -> None:
        assert self._link is not None
        try:
            data = self._link.recv(PACKET)
        except OSError:
            data = b""
        if data:
            kind, subject, detail = marshal.loads(data)
            self._callbacks[kind](subject, detail)
            return
        self._reactor.unregister(self._link.fileno())
        self._link.close()
        self._link = None
        assert self._process is not None
        self._process.wait()
        self._on_lost()
