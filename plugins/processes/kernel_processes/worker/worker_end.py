"""End a worker: in order, after its calls and the destructor of its actor, or at once."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import threading
from typing import Any, Protocol

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.execution_context import LEAVING_SECONDS
from kernel.runtime.worker_info import worker_info
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_engine.tasks.call_runner import CallRunner
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.system.process_exit import finish
from kernel_processes.system.starting import begin_thread
from kernel_processes.transport.connection import Connection
from kernel_processes.worker.executor_base import Call, ExecutorBase
from kernel_spec.errors import WorkerDiedError

TERMINATE = "__kernel_terminate__"
LAST_CALLS = 500
"""Maximum number of its latest calls that a worker reports when it ends."""
_MOMENT_SECONDS = 0.01
_TIDYING_SECONDS = 2.0
"""Seconds for coroutines to clean up after the last call, before the process ends in any case."""


class EndingWorker(Protocol):
    """Offers the parts of a worker that its end uses."""

    instance: Any
    """The object of an actor, or None."""

    @property
    def executor(self) -> ExecutorBase:
        """The executor of the calls."""

    @property
    def runner(self) -> CallRunner:
        """The runtime that sends their results."""

    def end_executors(self, reason: str) -> None:
        """Let all executors end after the running calls."""

    def finish_calls(self, seconds: float) -> None:
        """Wait so long for calls that still run beside the main thread's."""


class WorkerEnd:
    """Ends the process of `worker`.

    `out_of_scope` says why this actor ends after the calls that it has, and takes no more.
    """

    def __init__(self, runtime: ProcessRuntime, worker: EndingWorker) -> None:
        self._runtime = runtime
        self._worker = worker
        self.out_of_scope = ""
        self._exit_code = 0
        self._exiting = False
        self._lets_go = False
        """Whether the state of the actor was dropped, or is about to be."""
        runtime.io.handlers[number_of(op.EndProcess)] = self.on_exit
        runtime.io.methods["retire"] = self._retire
        worker_info.leave = self._leave_by
        self.hear_of_exits(worker.executor)

    def hear_of_exits(self, executor: ExecutorBase) -> None:
        """Have `executor` tell of calls that end this process."""
        executor.on_exit_actor = self._leave_by
        executor.on_system_exit = self._system_exit

    # -- from inside -----------------------------------------------------------------------------------------------

    def terminate(self) -> None:
        """End the actor, as the last of its methods."""
        self._leave(f"its {TERMINATE}() was called")

    def _leave_by(self, method: str) -> None:
        if self._worker.instance is not None:  # Otherwise the constructor calls it, and has failed.
            by = f"{method}()" if method else "a thread of its own"
            self._leave(f"it ended itself: {by} called exit_actor()")

    def _leave(self, reason: str) -> None:
        """End this actor for good, after the calls that run now."""
        if self._worker.executor.exit_reason is not None:
            return
        io = self._runtime.io
        if io.agent is not None:
            io.request(io.agent, "actor_leaves", reason)
        self.begin(reason)

    def _system_exit(self, call: Call, error: SystemExit, name: str) -> None:
        code = error.code if isinstance(error.code, int) else (0 if error.code is None else 1)
        self._exit_code = code
        message = f"{name}() called sys.exit({error.code!r}), which ended worker process {os.getpid()}"
        if worker_info.actor:
            # The callers learn of it when the process is gone. An actor that ends in order is not restarted.
            if code == 0:
                self._leave(message)
            else:
                self.begin(message)
            return
        self._runtime.io.send(call[0], packed(op.WornOut()))  # Before the failure, so that no other task comes.
        self._worker.runner.send_failure(call[0], call[1][1], name, WorkerDiedError(message))
        self.begin(message)

    def begin(self, reason: str) -> None:
        """End after the calls that run now. An actor's have LEAVING_SECONDS, though one may keep the main thread."""
        self._worker.end_executors(reason)
        if worker_info.actor:
            timer = threading.Timer(LEAVING_SECONDS + _TIDYING_SECONDS, self._exit_now)
            timer.daemon = True
            with contextlib.suppress(RuntimeError):  # Without room for a thread only the calls' own end counts.
                timer.start()

    def finish(self) -> int:
        """Send the last messages, after the last call; return the exit code. In the main thread."""
        self._worker.finish_calls(LEAVING_SECONDS)
        self._claim()
        self.drop_instance()
        self._leave_trace()
        self._runtime.io.write_out()
        return self._exit_code

    @calls_user_code
    def drop_instance(self) -> None:
        """Drop the actor's object, so that its destructor runs, in the thread of its calls."""
        if self._worker.instance is not None:
            self._lets_go = True
            self._worker.instance = None
            gc.collect()
            self._runtime.io.flush_soon()

    # -- from outside ----------------------------------------------------------------------------------------------

    def on_exit(self, connection: Connection, message: Message) -> None:
        """The agent wants this process to end: at once, or after what is queued; kindly or not."""
        reason, drain, kindly = unpacked(op.EndProcess, message)
        executor = self._worker.executor
        lives = self._worker.instance is not None
        if drain and lives:
            self.out_of_scope = reason
        if drain and (executor.is_running or self._is_needed()):
            if not executor.is_running and lives and not self._lets_go:
                # Two actors that hold objects of each other would wait for each other's end.
                self._lets_go = True
                executor.run_soon(self.drop_instance)
            self._runtime.io.reactor.call_later(_MOMENT_SECONDS, lambda: self.on_exit(connection, message))
        elif kindly and lives and not executor.is_running:
            self.begin(reason)
        else:
            self._exit_soon(kindly)

    def _exit_soon(self, kindly: bool = True) -> None:
        if begin_thread(lambda: self._exit_now(kindly), "exit") is None:  # No thread can start: the loop does it.
            self._exit_now(kindly)

    def _exit_now(self, kindly: bool = True) -> None:
        """End though the main thread may be in the middle of a call; `kindly` after running exit handlers."""
        self._claim()
        self._leave_trace()
        self._runtime.io.write_out()
        finish(self._exit_code, kindly)

    def _claim(self) -> None:
        """Be the thread that ends this process: any other that wants to stays here until it is over."""
        with self._runtime.io.lock:
            claimed, self._exiting = self._exiting, True
        if claimed:
            threading.Event().wait()

    def _retire(self) -> bool:
        """End this process if no other process needs it; return whether it ends."""
        goes = not self._is_needed() and not self._worker.executor.is_running
        if goes:
            self._exit_soon()
        return goes

    def _is_needed(self) -> bool:
        """Whether this process owns running tasks, or objects that are needed.

        What an actor holds in its own state goes with it: there, only what others hold counts.
        """
        actor = self._worker.instance is not None or self._lets_go
        return any(
            entry.owner is None and (entry.borrowed if actor else (entry.needed or entry.state == 0))
            for entry in list(self._runtime.ownership.objects.values())
        )

    def _leave_trace(self) -> None:
        """Hand the latest calls and metrics to the agent, because this process ends."""
        runtime = self._runtime
        runtime.failures.close()
        with runtime.io.lock:
            followed = runtime.trace.is_followed or runtime.details.get("observed")
            new = runtime.trace.new_calls() if followed else []
            runtime.io.tell_agent(packed(op.LastCalls(events=pickle.dumps(runtime.trace.events(LAST_CALLS)), new=new)))
            runtime.tell_last_metrics()
