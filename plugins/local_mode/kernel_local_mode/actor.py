"""One actor in this process: its state, the calls that wait for it, and the threads that run them.

A plain actor runs its methods at once in the calling thread, one at a time; a call that is made while another one runs
is left to the thread of that one. With `max_concurrency` or concurrency groups, calls run in threads of the actor's
own; `async def` methods in an event loop of its own (see `event_loop`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from typing import Any

from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition
from kernel.runtime.execution_context import LEAVING_SECONDS, Execution, ExitActor
from kernel_engine.one_process.actor_names import describe_actor
from kernel_engine.one_process.call_threads import CallThreads, call_user
from kernel_engine.one_process.transport import InProcessChannel
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.task_arguments import TaskArguments
from kernel_local_mode.concurrency import LocalConcurrencyGroup, Picked
from kernel_local_mode.environment import Environment
from kernel_local_mode.event_loop import LocalLoop
from kernel_local_mode.placement import LocalPlace
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.ids import ActorId, ProcessId

PENDING = "PENDING_CREATION"
ALIVE = "ALIVE"
RESTARTING = "RESTARTING"
DEAD = "DEAD"
THREAD_NAME = "kernel-local-actor"


@dataclass(slots=True)
class Leaving:
    """Says why an actor ends after its present calls, or at `deadline`; whether for good; which calls end with it."""

    reason: str
    final: bool
    deadline: float
    calls: set[bytes] = field(default_factory=set)


class LocalActor:
    """Runs one actor. Its state changes under `lock`, the runtime's; user code runs outside of it.

    `after_call(actor)` is called, without the lock, whenever one of its calls has ended.
    """

    def __init__(
        self,
        definition: ClassDefinition,
        options: ActorOptions,
        creation: Task,
        namespace: str,
        environment: Environment | None,
        *,
        owner: ProcessId,
        lock: threading.RLock,
        calls: CallThreads,
        arguments: TaskArguments,
        after_call: Callable[[LocalActor], None],
    ) -> None:
        self._lock = lock
        self._calls = calls
        self._arguments = arguments
        self._after_call = after_call
        self.id = ActorId(bytes(creation.id))
        self.definition = definition
        self.options = options
        self.creation = creation
        self.namespace = namespace
        self.environment = environment
        self.description = describe_actor(self.id, definition, options, owner)
        self.state = PENDING
        self.cause = ""
        self.failure: tuple[int, bytes] | None = None
        self.ending = ""
        self.leaving: Leaving | None = None
        self.restarts_left = options.max_restarts
        self.attempt = 0
        self.place: LocalPlace | None = None
        self.channel: InProcessChannel | None = None
        self.runner: CallRunner | None = None
        self.instance: Any = None
        self.loop: LocalLoop | None = None
        self.queue: deque[Task] = deque()
        self.working: set[int] = set()
        self.running: dict[bytes, tuple[Task, LocalConcurrencyGroup]] = {}
        limit = options.max_concurrency or (1000 if definition.is_async else 1)
        self.groups = {"": LocalConcurrencyGroup("", limit)}
        self.groups |= {name: LocalConcurrencyGroup(name, size) for name, size in options.concurrency_groups.items()}
        self.threaded = not definition.is_async and (limit > 1 or len(self.groups) > 1)

    @property
    def name(self) -> str:
        """The name of the actor's class."""
        return self.definition.name

    # -- calls -----------------------------------------------------------------------------------------------------

    def kick(self) -> None:
        """Run what may run. Not under the lock."""
        if self.state != ALIVE:
            return
        if self.loop is not None:
            self.loop.kick()
        elif self.threaded:
            self._start_threads()
        else:
            self._work()

    def pick(self) -> Picked | None:
        """Take the next call that may run: in order per caller and group. Under the lock."""
        if self.state != ALIVE or self.leaving is not None:
            return None
        assert self.place is not None and self.channel is not None and self.runner is not None
        stuck: set[bytes] = set()
        for task in self.queue:
            caller = task.extra["caller"] if task.extra else b""
            if caller in stuck:
                continue
            if task.waiting:
                stuck.add(caller)
                continue
            group = self.group_of(task)
            if group.active < group.limit:
                self.queue.remove(task)
                group.active += 1
                self.running[task.id] = (task, group)
                return Picked(task, group, self.runner, self.channel, self.place)
        return None

    def group_of(self, task: Task) -> LocalConcurrencyGroup:
        """Return the group a call belongs to."""
        options: CallOptions = task.definition  # type: ignore[assignment]
        return self.groups.get(options.concurrency_group) or self.groups[""]

    def _start_threads(self) -> None:
        while True:
            with self._lock:
                picked = self.pick()
            if picked is None:
                return
            threading.Thread(target=self._work, args=(picked,), name=THREAD_NAME, daemon=True).start()

    def _work(self, picked: Picked | None = None) -> None:
        thread = threading.get_ident()
        self.working.add(thread)
        try:
            while True:
                if picked is None:
                    with self._lock:
                        picked = self.pick()
                if picked is None:
                    return
                self._run(picked)
                picked = None
        finally:
            self.working.discard(thread)

    def _run(self, picked: Picked) -> None:
        task, channel = picked.task, picked.channel
        self._calls.run(
            task,
            lambda: self.lookup(task),
            picked.runner,
            channel,
            picked.place,
            lambda error, why: self.over(task, channel, error, why),
            in_thread=self.threaded,
        )

    def over(self, task: Task, channel: InProcessChannel, error: BaseException | None, why: str) -> None:
        """Finish a call. If `why` is not empty, it is the reason to end the actor, once its other calls have ended."""
        with self._lock:
            if channel is not self.channel:
                return
            if why:
                final = isinstance(error, ExitActor) or getattr(error, "code", 1) in (0, None)
                self.leaving = self.leaving or Leaving(why, final, time.monotonic() + LEAVING_SECONDS)
                self.leaving.calls.add(task.id)
            else:
                entry = self.running.pop(task.id, None)
                if entry is not None:
                    entry[1].active -= 1
        self._after_call(self)

    def lookup(self, task: Task) -> tuple[Callable[..., Any], str]:
        """Return the method a call names, and what errors call it."""
        name = task.definition.name
        group = task.definition.concurrency_group  # type: ignore[union-attr]
        if group and group not in self.groups:
            known = ", ".join(each for each in self.groups if each) or "none"
            raise OptionError(
                f"{self.name}.{name}() was called in concurrency group {group!r}; {self.name} has {known}"
            )
        if name == "__kernel_terminate__":
            return self._terminate, name
        method = getattr(self.instance, name, None)
        if method is None:
            raise AttributeError(f"actor {self.name} has no method {name!r}")
        return method, f"{self.name}.{name}"

    def _terminate(self) -> None:
        with self._lock:
            deadline = time.monotonic() + LEAVING_SECONDS
            self.leaving = Leaving("its __kernel_terminate__() was called", True, deadline)

    # -- construction ----------------------------------------------------------------------------------------------

    def construct(self) -> tuple[int, bytes] | None:
        """Run the constructor; return its failure, or None. It is not run when the actor has been ended before."""
        with self._lock:
            runner, channel, place = self.runner, self.channel, self.place
        if runner is None or channel is None or place is None:
            return None
        sender = channel.info.id
        try:
            with place.occupied(Execution(self.id, f"{self.name}.__init__", self.attempt, constructs=True)):
                cls = runner.load_definition(self.definition.blob, sender)
                slots = self._arguments.message(self.creation)
                args, kwargs, _ = runner.arguments_from(sender, "", self.creation.arguments, slots)
                instance = call_user(cls, args, kwargs)
            with self._lock:
                if self.place is place:  # Otherwise it was ended meanwhile, and needs no instance.
                    self.instance = instance
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                self._calls.keep_interrupt(error)
            return runner.describe_failure(f"{self.name}.__init__", error, ends_actor=True)
        return None

    def runs_here(self) -> bool:
        """Return whether the calling thread is inside one of its calls."""
        thread = threading.get_ident()
        return any(self._calls.threads.get(id) == thread for id in self.running)
