"""The worker: a process that runs tasks for whoever leased it, or is one actor for life."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.runtime import operations as op
from kernel.runtime.breakpoints import Breakpoints
from kernel.runtime.call_runner import CallRunner
from kernel.runtime.core import CoreRuntime
from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.current import set_runtime
from kernel.runtime.execution_context import Execution, current_execution
from kernel.runtime.executor import Executor
from kernel.runtime.executor_base import Call
from kernel.runtime.finish import finish
from kernel.runtime.worker_info import worker_info
from kernel.transport.connection import Connection, Message
from kernel_spec.errors import InternalError, OptionError, WorkerDiedError
from kernel_spec.ids import ProcessId

if TYPE_CHECKING:
    from kernel.runtime.async_executor import AsyncExecutor

_TERMINATE = "__kernel_terminate__"
LAST_CALLS = 500
"""How many of its latest calls a worker hands over when it ends."""


class Worker:
    """Connects the runtime of this process with what executes calls."""

    def __init__(self, runtime: CoreRuntime, on_session_lost: Callable[[], None]) -> None:
        self.runtime = runtime
        self.trace = runtime.trace
        self.runner = CallRunner(runtime)
        self.breakpoints = Breakpoints(runtime.io, lambda: self._class_name)
        self.runner.post_mortem = self.breakpoints.post_mortem
        self._main = Executor(runtime, self.runner, self._lookup, self._name_of)
        self.executor: Executor | AsyncExecutor = self._main
        self._functions: dict[bytes, tuple[Callable[..., Any] | None, bytes, dict[str, Any], ProcessId]] = {}
        self._instance: Any = None
        self._lets_go = False
        self._out_of_scope = ""
        """Why this actor ends after the calls that it has, and takes no more."""
        """Whether the state of the actor was dropped, or is about to be."""
        self._class_name = ""
        self._creation: tuple[Any, ...] | None = None
        self._exit_code = 0
        self._exiting = False
        io = runtime.io
        io.handlers |= {
            op.FUNCTION: self._on_function,
            op.ACTIVATE: self._on_activate,
            op.TASK: self._on_task,
            op.ACTOR_CALL: self._on_actor_call,
            op.GIVE_BACK: self._on_give_back,
            op.CANCEL: self._on_cancel,
            op.STREAM_TAKEN: lambda c, m: self.executor.on_stream_taken(c, m),
            op.BECOME_ACTOR: self._on_become_actor,
            op.EXIT: self._on_exit,
        }
        io.methods["retire"] = self._retire
        io.on_agent_lost = lambda reason: on_session_lost()
        io.on_forked.append(self._leave_in_child)
        runtime.values.before_block = self._before_block
        runtime.values.after_block = self._after_block
        self._blocked = 0
        runtime.inspection.waits.ahead = self._calls_ahead

    def run(self) -> int:
        """Serve until told to end; return the exit code."""
        main = self._main
        main.on_exit_actor = self._exit_actor
        main.on_system_exit = self._system_exit
        while main.exit_reason is None or self._creation is not None:
            if self._creation is not None:
                creation, self._creation = self._creation, None
                main.exit_reason = None
                self._be_actor(*creation)
            main.run()
        main.finish_calls()
        self._leave_trace()
        self.runtime.io.write_out()
        return self._exit_code

    def _leave_in_child(self) -> None:
        """A child that user code forked serves nobody: if it comes back from the call, it ends."""
        self._creation = None
        self.executor.exit_reason = self._main.exit_reason = "it is a forked child"
        self.executor.leave_in_child()

    # -- functions and calls ---------------------------------------------------------------------------------------

    def _on_function(self, connection: Connection, message: Message) -> None:
        _, id, blob, description = message
        if id not in self._functions:
            self._functions[id] = (None, blob, description, connection.info.id)

    def _lookup(self, message: Message) -> tuple[Callable[..., Any], str]:
        if message[0] == op.TASK:
            known = self._functions.get(message[2])
            if known is None:
                raise InternalError(f"function {message[2].hex()} was never sent to this worker")
            function, blob, description, sender = known
            if function is None:
                function = self.runner.load_definition(blob, sender)
                self._functions[message[2]] = (function, b"", description, sender)
            return function, description["name"]
        name = message[2]
        if name == _TERMINATE:
            return self._terminate, name
        method = getattr(self._instance, name, None)
        if method is None:
            raise AttributeError(f"actor {self._class_name} has no method {name!r}")
        return method, f"{self._class_name}.{name}"

    def _name_of(self, message: Message) -> str:
        if message[0] == op.ACTOR_CALL:
            return message[2] if message[2] == _TERMINATE else f"{self._class_name}.{message[2]}"
        known = self._functions.get(message[2])
        return known[2]["name"] if known is not None else "task"

    def _on_task(self, connection: Connection, message: Message) -> None:
        self.executor.enqueue(connection, message)

    def _on_actor_call(self, connection: Connection, message: Message) -> None:
        if self._out_of_scope:
            # Of somebody who found it by its name just before it lost that. It would be kept alive by the call, beside
            # the next actor of that name.
            name = f"{self._class_name}.{message[2]}"
            self.runner.send_dead(connection, message[1], name, self._out_of_scope)
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
        """Somebody has leased this worker."""
        worker_info.assign(message[2], message[3], message[4])
        assert isinstance(self._main, Executor)
        self._main.pace.forget()

    def _on_give_back(self, connection: Connection, message: Message) -> None:
        self.executor.give_back(message[1], connection)

    def _on_cancel(self, connection: Connection, message: Message) -> None:
        _, task, recursive = message
        if recursive:
            self.runtime.cancel_children(task)
        self.executor.cancel(task)
        self.breakpoints.cancelled(task)

    # -- blocking gives resources back -----------------------------------------------------------------------------

    def _before_block(self) -> bool:
        """A thread is about to wait in `get`; return whether that gave the lease's resources back.

        Threads that a task has started count: it may be waiting for them. An actor's may wait all its life.
        """
        executor = self._main
        if not isinstance(executor, Executor):
            return False
        if not executor.in_call() and (self._instance is not None or not executor.is_running):
            return False
        with self.runtime.io.lock:
            self._blocked += 1
            if self._blocked == 1:
                if self._instance is None:
                    executor.refuses_tasks = True
                    executor.give_back()
                self.runtime.io.tell_agent((op.BLOCKED,))
        return True

    def _after_block(self) -> None:
        executor = self._main
        assert isinstance(executor, Executor)
        with self.runtime.io.lock:
            self._blocked -= 1
            if self._blocked == 0:
                executor.refuses_tasks = executor.worn_out
                self.runtime.io.tell_agent((op.UNBLOCKED,))

    def _calls_ahead(self, task: bytes) -> int | None:
        """Return how many calls run beside each other where `task` is queued; nothing if it is not queued here.

        On an event loop one call that blocks holds up all others, also those that have begun.
        """
        if not isinstance(self.executor, Executor):
            return 1
        for group in self.executor.groups.values():
            if any(message[1] == task for _, message in list(group.queue)):
                return group.limit
        return None

    # -- actors ----------------------------------------------------------------------------------------------------

    def _on_become_actor(self, connection: Connection, message: Message) -> None:
        _, actor, creation, held, attempt = message
        self._creation = (actor, pickle.loads(creation), held, attempt)
        self._main.exit_reason = "becoming an actor"
        self._main.wake()

    def _be_actor(self, actor: bytes, creation: dict[str, Any], held: tuple[Any, Any, Any], attempt: int) -> None:
        worker_info.assign(*held)
        worker_info.actor = actor
        worker_info.actor_name = creation["name"]
        worker_info.description = creation["description"]
        worker_info.restarts = attempt
        worker_info.namespace = self.runtime.namespace = creation["namespace"]
        self._class_name = self.runner.actor_name = creation["name"]
        if creation["is_async"]:
            from kernel.runtime.async_executor import AsyncExecutor  # half as much again as all else in a worker

            executor = AsyncExecutor(
                self.runtime,
                self.runner,
                self._lookup,
                self._name_of,
                creation["max_concurrency"],
                creation["concurrency_groups"],
            )
            executor.on_exit_actor = self._exit_actor
            executor.on_system_exit = self._system_exit
            self.executor = executor
            executor.run(lambda: self._construct(actor, creation, attempt))
            self._main.exit_reason = executor.exit_reason or "ended"
            return
        main = self._main
        main.main.limit = max(1, creation["max_concurrency"])
        for name, limit in creation["concurrency_groups"].items():
            main.add_group(name, limit)
        self._construct(actor, creation, attempt)

    @calls_user_code
    def _construct(self, actor: bytes, creation: dict[str, Any], attempt: int) -> bool:
        """Run the constructor and tell the agent; return whether it succeeded."""
        name = f"{creation['name']}.__init__"
        owner, address = creation["caller"]
        token = current_execution.set(Execution(actor, name, attempt, constructs=True))
        try:
            cls = self.runner.load_definition(creation["blob"], owner)
            args, kwargs, arrival = self.runner.arguments_from(owner, address, creation["arguments"], creation["slots"])
            self._instance = cls(*args, **kwargs)
            self.runner.settle(arrival)
        except BaseException as error:
            failure = self.runner.describe_failure(name, self.runner.post_mortem(error), ends_actor=True)
            with self.runtime.io.lock:
                self.runtime.io.tell_agent((op.ACTOR_READY, actor, failure))
            self._begin_exit("its constructor failed")
            return False
        finally:
            current_execution.reset(token)
        with self.runtime.io.lock:
            self.runtime.io.tell_agent((op.ACTOR_READY, actor, None))
        self.runtime.io.flush()
        return True

    # -- the end ---------------------------------------------------------------------------------------------------

    def _terminate(self) -> None:
        self._leave(f"its {_TERMINATE}() was called")

    def _exit_actor(self, method: str) -> None:
        self._leave(f"it ended itself: {method}() called exit_actor()")

    def _leave(self, reason: str) -> None:
        """End this actor for good, after the calls that run now."""
        io = self.runtime.io
        if io.agent is not None:
            io.request(io.agent, "actor_leaves", reason)
        self._begin_exit(reason)

    def _begin_exit(self, reason: str) -> None:
        """End after the call that runs now."""
        self.executor.exit_reason = reason
        self._main.exit_reason = reason
        self.runtime.io.flush()
        self.executor.wake()

    def _on_exit(self, connection: Connection, message: Message) -> None:
        """The agent wants this process to end: at once, or after what is queued."""
        drain = message[2]
        if drain and self._instance is not None:
            self._out_of_scope = message[1]
        if drain and (self.executor.is_running or self._is_needed()):
            if not self.executor.is_running and self._instance is not None and not self._lets_go:
                self._lets_go = True
                self.executor.run_soon(self._drop_instance)
            self.runtime.io.reactor.call_later(0.01, lambda: self._on_exit(connection, message))
            return
        threading.Thread(target=self._exit_now, daemon=True).start()

    def _drop_instance(self) -> None:
        """Let go of what the actor holds, which nobody can call any more though others need objects that it owns.

        Two actors that hold objects of each other would wait for each other's end.
        """
        self._instance = None
        gc.collect()
        self.runtime.io.flush_soon()

    def _exit_now(self) -> None:
        """Run exit handlers though the main thread may be in the middle of a call."""
        with self.runtime.io.lock:
            if self._exiting:
                return
            self._exiting = True
        self._leave_trace()
        self.runtime.io.write_out()
        finish(self._exit_code)

    def _retire(self) -> bool:
        """End, if nobody needs this process; return whether it does."""
        goes = not self._is_needed() and not self.executor.is_running
        if goes:
            threading.Thread(target=self._exit_now, daemon=True).start()
        return goes

    def _leave_trace(self) -> None:
        """Hand the latest calls to the agent, for the timeline and observers, because this process ends."""
        self.runtime.failures.close()
        with self.runtime.io.lock:
            followed = self.trace.is_followed or self.runtime.details.get("observed")
            new = self.trace.new_calls() if followed else []
            self.runtime.io.tell_agent((op.LAST_CALLS, pickle.dumps(self.trace.events(LAST_CALLS)), new))

    def _is_needed(self) -> bool:
        """Whether this process owns objects that somebody needs, or tasks that run.

        What an actor holds in its own state goes with it: there, only what others hold counts.
        """
        actor = self._instance is not None or self._lets_go
        return any(
            entry.owner is None and (entry.borrowed if actor else (entry.needed or entry.state == 0))
            for entry in list(self.runtime.ownership.objects.values())
        )

    def _system_exit(self, call: Call, error: SystemExit, name: str) -> None:
        code = error.code if isinstance(error.code, int) else (0 if error.code is None else 1)
        self._exit_code = code
        message = f"{name}() called sys.exit({error.code!r}), which ended worker process {os.getpid()}"
        if worker_info.actor:
            # The callers learn of it when the process is gone; one that ends in order is not restarted.
            if code == 0:
                self._leave(message)
            else:
                self._begin_exit(message)
            return
        self.runtime.io.send(call[0], (op.WORN_OUT,))  # before the failure, so that no other task is sent here
        self.runner.send_failure(call[0], call[1][1], name, WorkerDiedError(message))
        self._begin_exit(message)


def serve(runtime: CoreRuntime, details: dict[str, Any], on_session_lost: Callable[[], None]) -> int:
    """Join the session as a worker and serve until told to end; return the exit code.

    `on_session_lost()` is called when the node agent is gone; it must end this process.
    """
    faulthandler.enable(all_threads=False)
    set_runtime(runtime)
    worker = Worker(runtime, on_session_lost)
    runtime.start(details)
    worker.breakpoints.install()
    return worker.run()
