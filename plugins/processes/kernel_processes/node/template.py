"""The template: a small process without threads that forks workers, with all imports done once.

It is started by the agent with one end of a socket pair, and speaks with it as `template_messages` says; it answers in
packets of marshal. When the agent is gone it ends its workers, everything they started, and itself.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import pickle
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from kernel.logs import Logger
from kernel_engine.messages.named_messages import number_of, packed, unpacked
from kernel_processes.node.sessions import clean_up
from kernel_processes.node.template_messages import (
    ForkFailed,
    ForkWorker,
    LoadSession,
    WorkerExited,
    WorkerForked,
    receive_message,
)
from kernel_processes.system import thread_limits
from kernel_processes.system.processes import become_subreaper, collect_garbage, end_descendants, end_orphans, set_title
from kernel_processes.system.starting import why_no_process

ANSWER_BYTES = 4096
"""The largest answer in bytes."""
_DEAD_WORKERS_KEPT = 100
"""Number of dead workers that are remembered, in case a process that one of them was starting turns up."""
_PROGRAM = "kernel_processes.worker.main"
"""The module that workers run: it has `prepare(session)`, called once, and `main(worker, session)`."""
_LATER = "kernel_processes.worker.async_executor"
"""A module that most workers do without: it is imported while the template is idle, so that no session waits for it."""
_LOAD = number_of(LoadSession)
_IDLE_SECONDS = 0.5
"""Seconds of idleness after which that module is imported."""


class Template:
    """Forks workers, reaps them, and cleans up after the agent."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._session: dict[str, Any] = {}
        self._workers: set[int] = set()
        self._dead_workers: dict[int, None] = {}
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_writer, False)
        os.set_blocking(self._wake_reader, False)

    def run(self) -> None:
        """Serve until the agent is gone."""
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        while True:
            waits = self._session and _LATER not in sys.modules
            ready, _, _ = select.select([self._link, self._wake_reader], [], [], _IDLE_SECONDS if waits else None)
            if not ready:
                importlib.import_module(_LATER)
                gc.freeze()
            if self._wake_reader in ready:
                self._reap()
            if self._link in ready and not self._serve():
                break
        self._agent_is_gone()

    def _serve(self) -> bool:
        received = receive_message(self._link)
        if received is None:
            return False
        message, descriptors = received
        if message[0] == _LOAD:
            self._load(unpacked(LoadSession, message).session)
        else:
            self._fork(unpacked(ForkWorker, message).worker, descriptors)
        return True

    @property
    def _program(self) -> Any:
        return importlib.import_module(_PROGRAM)

    def _load(self, data: bytes) -> None:
        self._session = pickle.loads(data)
        self._session["prepared"] = self._program.prepare(self._session)
        self._session["template"] = os.getpid()
        gc.collect()
        collect_garbage()

    def _fork(self, worker: dict[str, Any], descriptors: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            reason = f"the process could not be forked: {why_no_process(error)}"
            self._tell(packed(ForkFailed(worker["id"], reason)))
            pid = -1
        if pid == 0:
            self._become_worker(worker, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            self._workers.add(pid)
            self._dead_workers.pop(pid, None)
            self._tell(packed(WorkerForked(worker["id"], pid)))

    def _become_worker(self, worker: dict[str, Any], descriptors: list[int]) -> None:
        code = 1
        try:
            os.setsid()  # A worker's children are known by its session, and end with it.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._link.close()
            os.close(self._wake_reader)
            os.close(self._wake_writer)
            for target, descriptor in zip((1, 2), descriptors, strict=False):
                os.dup2(descriptor, target)
                os.close(descriptor)
            code = self._program.main(worker, self._session)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            from kernel_processes.system.process_exit import finish

            finish(code)

    def _reap(self) -> None:
        try:
            os.read(self._wake_reader, 4096)
        except BlockingIOError:
            return
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._workers:
                self._workers.discard(pid)
                self._dead_workers[pid] = None
                self._tell(packed(WorkerExited(pid, status)))
        while len(self._dead_workers) > _DEAD_WORKERS_KEPT:
            del self._dead_workers[next(iter(self._dead_workers))]
        end_orphans(self._dead_workers, self._workers)

    def _tell(self, message: tuple[Any, ...]) -> None:
        try:
            self._link.send(marshal.dumps(message))
        except OSError:
            return  # The agent is gone; the loop learns of it.

    def _agent_is_gone(self) -> None:
        end_descendants(os.getpid())
        if self._session:
            clean_up(self._session["directory"])


def main() -> None:
    """Run with the arguments DESCRIPTOR MODULE..., see `serve`."""
    link = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(link.fileno(), False)
    serve(link, sys.argv[2:])


def serve(link: socket.socket, preload: Sequence[str]) -> None:
    """Be a template until the agent at the other end of `link` is gone; `preload` is imported once, for all workers."""
    set_title("kernel: template")
    os.setsid()
    become_subreaper()
    thread_limits.begin()
    for module in (_PROGRAM, *preload):
        try:
            importlib.import_module(module)
        except Exception as error:
            Logger("kernel.node").warning(
                "a module could not be imported for the workers", module=module, error=repr(error)
            )
    Template(link).run()
