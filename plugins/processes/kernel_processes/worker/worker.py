"""The worker: a process that runs tasks for the holder of its lease, or is one actor for life."""

from __future__ import annotations

import faulthandler
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.current import set_runtime
from kernel.runtime.execution_context import Execution, current_execution
from kernel.runtime.process_title import worker_title
from kernel.runtime.worker_info import worker_info
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_engine.tasks.call_runner import CallRunner
from kernel_processes.runtime.circular_waits import Ahead
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.transport.connection import Connection
from kernel_processes.worker.breakpoints import Breakpoints
from kernel_processes.worker.executor import Executor
from kernel_processes.worker.lending import CpuLending
from kernel_processes.worker.worker_end import TERMINATE, WorkerEnd
from kernel_spec.errors import InternalError, OptionError
from kernel_spec.ids import ActorId, ProcessId
from kernel_spec.resources import CPU

if TYPE_CHECKING:
    from kernel_processes.worker.async_executor import AsyncExecutor


class Worker:
    """Connects the runtime of this process with the executor of its calls."""

    def __init__(self, runtime: ProcessRuntime, on_session_lost: Callable[[], None]) -> None:
        self.runtime = runtime
        self.trace = runtime.trace
        self.runner = CallRunner(runtime)
        self.breakpoints = Breakpoints(runtime.io, lambda: self._class_name)
        self.runner.post_mortem = self.breakpoints.post_mortem
        self._main = Executor(runtime, self.runner, self._lookup, self._name_of)
        self.executor: Executor | AsyncExecutor = self._main
        self._functions: dict[bytes, tuple[Callable[..., Any] | None, bytes, dict[str, Any], ProcessId]] = {}
        self.instance: Any = None
        self._class_name = ""
        self._creation: tuple[Any, ...] | None = None
        self._ending = WorkerEnd(runtime, self)
        io = runtime.io
        io.handlers |= {
            op.FUNCTION: self._on_function,
            op.ACTIVATE: self._on_activate,
            op.TASK: self._on_task,
            op.ACTOR_CALL: self._on_actor_call,
            op.GIVE_BACK: self._on_give_back,
            number_of(op.CancelTask): self._on_cancel,
            op.STREAM_TAKEN: lambda c, m: self.executor.on_stream_taken(c, m),
            number_of(op.BecomeActor): self._on_become_actor,
        }
        io.on_agent_lost = lambda reason: on_session_lost()
        io.on_forked.append(self._leave_in_child)
        self._lending = CpuLending(
            io, runtime.ownership, self._main, lambda: self.instance is not None, self._has_idle_cpu
        )
        runtime.values.before_block = self._lending.before_block
        runtime.values.after_block = self._lending.after_block
        runtime.futures.on_await = runtime.streams.on_await = self._lending.begin_await
        runtime.inspection.waits.ahead = self._calls_ahead
        runtime.is_cancelled = lambda task: self.executor.is_cancelled(task, bool(worker_info.actor))

    def run(self) -> int:
        """Serve until an order to end; return the exit code."""
        main = self._main
        while main.exit_reason is None or self._creation is not None:
            if self._creation is not None:
                creation, self._creation = self._creation, None
                main.exit_reason = None
                self._be_actor(*creation)
            main.run()
        return self._ending.finish()

    def end_executors(self, reason: str) -> None:
        """Let both executors end after the running calls."""
        self.executor.exit_reason = self._main.exit_reason = reason
        self.runtime.io.flush()
        self.executor.wake()

    def finish_calls(self, seconds: float) -> None:
        """Wait so long for calls that still run beside the main thread's."""
        self._main.finish_calls(seconds)

    def _leave_in_child(self) -> None:
        """In a child that user code forked, serve no calls: the child ends if it returns from the call."""
        self._creation = None
        self.executor.exit_reason = self._main.exit_reason = "it is a forked child"
        self.executor.leave_in_child()

    # -- functions and calls ---------------------------------------------------------------------------------------

    def _on_function(self, connection: Connection, message: Message) -> None:
        _, id, blob, description = message
        if id not in self._functions:
            self._functions[id] = (None, blob, description, connection.info.id)

    def _lookup(self, message: Message) -> tuple[Callable[..., Any], str]:
        if worker_info.fault is not None:
            raise worker_info.fault
        if message[0] == op.TASK:
            known = self._functions.get(message[2])
            if known is None:
                raise InternalError(f"function {message[2].hex()} was never sent to this worker")
            function, blob, description, sender = known
            if function is None:
                function = self.runner.load_definition(blob, sender)
                self._functions[message[2]] = (function, b"", description, sender)
                self.runtime.trace.note_function(description["name"], function)
            return function, description["name"]
        name = message[2]
        if name == TERMINATE:
            return self._ending.terminate, name
        method = getattr(self.instance, name, None)
        if method is None:
            raise AttributeError(f"actor {self._class_name} has no method {name!r}")
        return method, f"{self._class_name}.{name}"

    def _name_of(self, message: Message) -> str:
        if message[0] == op.ACTOR_CALL:
            return message[2] if message[2] == TERMINATE else f"{self._class_name}.{message[2]}"
        known = self._functions.get(message[2])
        return known[2]["name"] if known is not None else "task"

    def _on_task(self, connection: Connection, message: Message) -> None:
        self.executor.enqueue(connection, message)

    def _on_actor_call(self, connection: Connection, message: Message) -> None:
        if self._ending.out_of_scope:
            # The caller found the actor by its name just before the actor lost that name. The call would keep the actor
            # alive, beside the next actor of that name.
            name = f"{self._class_name}.{message[2]}"
            self.runner.send_dead(connection, message[1], name, self._ending.out_of_scope)
            return
        extra = message[6]
        if extra is None:
            self.executor.enqueue(connection, message)
            return
        group = extra["group"]
        if group and group not in self.executor.groups:
            self._refuse_group(connection, message, group)
        else:
            self.executor.enqueue(connection, message, group)

    def _refuse_group(self, connection: Connection, message: Message, group: str) -> None:
        known = ", ".join(name for name in self.executor.groups if name) or "none"
        name = f"{self._class_name}.{message[2]}"
        error = OptionError(f"{name}() was called in concurrency group {group!r}; {self._class_name} has {known}")
        self.runner.send_failure(connection, message[1], name, error)

    def _on_activate(self, connection: Connection, message: Message) -> None:
        """This worker has been leased."""
        worker_info.assign(message[2], message[3], message[4])
        self._main.durations.forget()
        self._lending.leased()

    def _on_give_back(self, connection: Connection, message: Message) -> None:
        self.executor.give_back(message[1], connection)

    def _on_cancel(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.CancelTask, message)
        if said.recursive:
            self.runtime.cancelling.cancel_children(said.task)
        self.executor.cancel(said.task)
        self.breakpoints.cancelled(said.task)

    # -- what others wait for --------------------------------------------------------------------------------------

    def _has_idle_cpu(self) -> bool:
        """Whether a worker here that this one has leased is idle, and has as much CPU. Under the lock."""
        return self.runtime.submitter.has_idle(CPU, worker_info.resources.get(CPU, 0))

    def _calls_ahead(self, task: bytes) -> Ahead | None:
        """Return what may hold up a call: those that run beside each other where it is queued.

        On an event loop, one call that blocks holds up all others, also those that have begun.
        """
        for group in self.executor.groups.values():
            if any(message[1] == task for _, message in list(group.queue)):
                return Ahead(group.limit, coroutines=True)
        thread = 0 if isinstance(self.executor, Executor) else self.executor.thread_of(task)
        return Ahead(1, thread=thread) if thread else None

    # -- actors ----------------------------------------------------------------------------------------------------

    def _on_become_actor(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.BecomeActor, message)
        self._creation = (said.actor, pickle.loads(said.creation), said.held, said.attempt)
        self._main.exit_reason = "becoming an actor"
        self._main.wake()

    def _be_actor(self, actor: ActorId, creation: dict[str, Any], held: tuple[Any, Any, Any], attempt: int) -> None:
        worker_info.assign(*held)
        worker_info.actor = actor
        worker_info.actor_name = creation["name"]
        worker_info.description = creation["description"]
        worker_info.restarts = attempt
        worker_info.namespace = self.runtime.namespace = creation["namespace"]
        self._class_name = self.runner.actor_name = creation["name"]
        worker_title.actor(self._class_name, creation["description"]["name"], starting=True)
        if creation["is_async"]:
            from kernel_processes.worker.async_executor import (
                AsyncExecutor,  # It takes half as much memory again as all else in a worker.
            )

            executor = AsyncExecutor(
                self.runtime,
                self.runner,
                self._lookup,
                self._name_of,
                creation["max_concurrency"],
                creation["concurrency_groups"],
            )
            executor.on_over = self._ending.drop_instance
            self.executor = executor
            self._ending.hear_of_exits(executor)
            executor.run(lambda: self._construct(actor, creation, attempt))
            self._main.exit_reason = executor.exit_reason or "ended"
            return
        main = self._main
        main.main.limit = max(1, creation["max_concurrency"])
        for name, limit in creation["concurrency_groups"].items():
            main.add_group(name, limit)
        self._construct(actor, creation, attempt)

    @calls_user_code
    def _construct(self, actor: ActorId, creation: dict[str, Any], attempt: int) -> bool:
        """Run the constructor and tell the agent; return whether it succeeded."""
        name = f"{creation['name']}.__init__"
        owner, address = creation["caller"]
        token = current_execution.set(Execution(actor, name, attempt, constructs=True))
        try:
            if worker_info.fault is not None:
                raise worker_info.fault
            cls = self.runner.load_definition(creation["blob"], owner)
            args, kwargs, arrival = self.runner.arguments_from(owner, address, creation["arguments"], creation["slots"])
            self.instance = cls(*args, **kwargs)
            self.runner.settle(arrival)
        except BaseException as error:
            failure = self.runner.describe_failure(name, self.runner.post_mortem(error), ends_actor=True)
            with self.runtime.io.lock:
                self.runtime.io.tell_agent(packed(op.ActorReady(actor=actor, failure=failure)))
            self._ending.begin("its constructor failed")
            return False
        finally:
            current_execution.reset(token)
        worker_title.actor(self._class_name, creation["description"]["name"], starting=False)
        with self.runtime.io.lock:
            self.runtime.io.tell_agent(packed(op.ActorReady(actor=actor, failure=None)))
        self.runtime.io.flush()
        return True


def serve(runtime: ProcessRuntime, details: dict[str, Any], on_session_lost: Callable[[], None]) -> int:
    """Join the session as a worker and serve until an order to end; return the exit code.

    `on_session_lost()` is called when the node agent is gone; it must end this process.
    """
    faulthandler.enable(all_threads=False)
    set_runtime(runtime)
    worker_title.is_worker = True
    worker = Worker(runtime, on_session_lost)
    runtime.start(details)
    worker.breakpoints.install()
    return worker.run()
