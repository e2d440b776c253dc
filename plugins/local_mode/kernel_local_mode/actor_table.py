"""Keep every actor of this process: creation, names, restarts and death."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kernel.runtime.definitions import ActorOptions, ClassDefinition
from kernel.runtime.execution_context import ExitActor
from kernel.runtime.object_entry import INLINE
from kernel_engine.failures.failed_arguments import argument_failed
from kernel_engine.failures.failures import failure_of
from kernel_engine.messages.actor_ends import no_handles
from kernel_engine.objects.value_placement import inline
from kernel_engine.one_process.actor_names import ActorNames
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.one_process.transport import InProcessTransport
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_engine.tasks.tasks import TaskTable
from kernel_local_mode.actor import ALIVE, DEAD, PENDING, RESTARTING, LocalActor
from kernel_local_mode.environment import Environment, LocalEnvironments
from kernel_local_mode.event_loop import LocalLoop
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.placement import make_place
from kernel_local_mode.resources import LocalResources, ResourceRequest
from kernel_spec.errors import ActorDiedError, ActorUnavailableError, PendingCallsLimitError
from kernel_spec.ids import ActorId

KEPT_DEAD = 1000


class LocalActors:
    """Holds the actors and their definitions. State changes under the lock, user code runs outside of it."""

    def __init__(
        self,
        transport: InProcessTransport,
        tasks: TaskTable,
        calls: CallThreads,
        streaming: Generators,
        resources: LocalResources,
        helpers: Helpers,
        make_runner: Callable[[str], CallRunner],
        environments: LocalEnvironments,
        names: ActorNames,
    ) -> None:
        self._lock = transport.lock
        self._transport = transport
        self._tasks = tasks
        self._calls = calls
        self._streaming = streaming
        self._resources = resources
        self._helpers = helpers
        self.actors: dict[ActorId, LocalActor] = {}
        self._names = names
        self._make_runner = make_runner
        self._environments = environments
        self._layers: dict[ActorId, Any] = {}
        self._dead: deque[ActorId] = deque()

    # -- birth -----------------------------------------------------------------------------------------------------

    def create(
        self,
        definition: ClassDefinition,
        options: ActorOptions,
        creation: Task,
        namespace: str,
        environment: Environment | None,
    ) -> LocalActor:
        """Take a new actor, whose name is free. Under the lock."""
        actor = LocalActor(
            definition, options, creation, namespace, environment,
            owner=self._transport.id, lock=self._lock, calls=self._calls, arguments=self._tasks.arguments,
            after_call=self.after_call,
        )  # fmt: skip
        self._tasks.register(creation)
        self.actors[actor.id] = actor
        self._names.add(namespace, actor.description)
        entry = creation.all_entries()[0]
        head, buffers, _ = self._tasks.serializer.dumps(None)
        entry.resolve(INLINE, inline(head, buffers))
        # The arguments stay alive as long as the actor may be constructed again.
        entry.more().contained, creation.holds = creation.holds, None
        entry.more().may_go = lambda: self.let_go(actor)
        return actor

    def start_when_ready(self, actor: LocalActor) -> None:
        """Start an actor now, or when its arguments are there. Not under the lock."""
        with self._lock:
            start = lambda task: self._helpers.submit(lambda: self.start(actor))  # noqa: E731
            ready = self._tasks.arguments.resolve(actor.creation, start)
        if ready:
            self.start(actor)

    def start(self, actor: LocalActor) -> None:
        """Construct an actor, or leave it waiting for resources. Not under the lock."""
        with self._lock:
            if actor.state not in (PENDING, RESTARTING):
                return
            failure = self._tasks.arguments.failure(actor.creation)
            if failure is not None:
                self._tasks.failures.settled(failure)  # The constructor's failure says the same.
                here: Any = self._transport.identity
                failure = argument_failed(failure, actor.name, actor.id, here, os.getpid())
                self.die(actor, "an argument of its constructor failed", failure)
                return
            refusal = self._resources.refusal(actor.name, actor.options)
            if refusal is not None:
                self.die(actor, str(refusal), failure_of(refusal))
                return
            allocation = self._resources.acquire(actor.options)
            if allocation is None:
                retry = ResourceRequest(actor.name, actor.options, lambda: self.start(actor))
                self._resources.wait(retry)
                return
            strategy = actor.options.strategy
            actor.place = make_place(allocation, strategy, actor.namespace, actor.environment, self._environments)
            info = actor.place.info
            info.actor, info.actor_name, info.restarts = actor.id, actor.name, actor.attempt
            info.description = actor.description
            actor.channel = self._transport.channel()
            actor.runner = self._make_runner(actor.name)
        self._construct(actor)

    def _construct(self, actor: LocalActor) -> None:
        if actor.definition.is_async:
            if actor.place is not None and actor.place.environment:
                self._layers[actor.id] = self._environments.enter(actor.place.environment)
            actor.loop = LocalLoop(
                actor, lambda failure: self._constructed(actor, failure),
                threads=actor.groups[""].limit, lock=self._lock, calls=self._calls, arguments=self._tasks.arguments,
                streaming=self._streaming,
            )  # fmt: skip
            actor.loop.start()
        else:
            self._constructed(actor, actor.construct())
            self._calls.raise_interrupt()

    def _constructed(self, actor: LocalActor, failure: tuple[int, bytes] | None) -> None:
        with self._lock:
            if actor.state == DEAD:
                return
            if failure is not None:
                self.die(actor, "its constructor raised", failure)
                return
            actor.state = ALIVE
        actor.kick()
        self.after_call(actor)

    # -- calls -----------------------------------------------------------------------------------------------------

    def accept(self, actor: LocalActor, task: Task) -> None:
        """Take a new call. Under the lock; `kick` the actor afterwards."""
        self._tasks.register(task)
        task.place = actor
        self._tasks.arguments.resolve(task, lambda task: self._helpers.submit(actor.kick))
        if actor.state == DEAD:
            self.fail_dead(actor, task)
        else:
            actor.queue.append(task)

    def fail_unknown(self, actor: ActorId, task: Task) -> None:
        """Fail a new call on an actor that died so long ago that it is forgotten. Under the lock."""
        self._tasks.register(task)
        name = f"actor.{task.definition.name}()"
        message = f"{name} failed because the actor ({actor.hex()[:12]}) is dead: it ended long ago"
        self._tasks.fail_with(task, ActorDiedError(message, actor_id=actor.hex()))

    def check_pending_calls(self, actor: ActorId, caller: bytes, limit: int) -> None:
        """Raise PendingCallsLimitError when `limit` calls of `caller` wait for the actor. Not under the lock."""
        known = self.actors.get(actor)
        if known is None:
            return
        with self._lock:
            tasks = [*known.queue, *(task for task, _ in known.running.values())]
        if sum(1 for task in tasks if task.extra and task.extra["caller"] == caller) >= limit:
            raise PendingCallsLimitError(
                f"{known.name} ({actor.hex()[:12]}) has {limit} calls of this process waiting, its "
                "max_pending_calls; get some results before calling it again"
            )

    def retry(self, task: Task) -> None:
        """Take a call that must be made again, before all later ones. Under the lock."""
        actor: LocalActor = task.place
        actor.queue.appendleft(task)

    def cancel(self, task: Task) -> None:
        """Cancel a call that waits. Under the lock."""
        actor: LocalActor = task.place
        if task in actor.queue:
            actor.queue.remove(task)
            task.cancelled = True
            self._tasks.fail_with(task, cancelled_error(task))
            self._helpers.submit(lambda: self.after_call(actor))

    def after_call(self, actor: LocalActor) -> None:
        """Start the next call after one that has ended, or end an actor that waits for its last. Not under the lock."""
        again = False
        with self._lock:
            leaving = actor.leaving
            if actor.state != ALIVE:
                return
            if leaving is not None:
                if not set(actor.running) <= leaving.calls and time.monotonic() < leaving.deadline:
                    self._look_again(actor, leaving.deadline)
                    return
                if leaving.final:
                    self.die(actor, leaving.reason)
                else:
                    again = self.worker_lost(actor, leaving.reason)
            elif actor.ending and not actor.queue and not actor.running:
                self._end_unless_found_again(actor)
            waits = bool(actor.queue) and actor.state == ALIVE
        if again:
            self._helpers.submit(lambda: self.start(actor))
        elif waits and threading.get_ident() not in actor.working:
            actor.kick()

    def _look_again(self, actor: LocalActor, deadline: float) -> None:
        """Look after an actor that leaves when its calls have had their time."""
        timer = threading.Timer(deadline - time.monotonic(), self.after_call, (actor,))
        timer.daemon = True
        timer.start()

    def _end_unless_found_again(self, actor: LocalActor) -> None:
        if actor.creation.all_entries()[0].local > 0:
            actor.ending = ""
        else:
            self.die(actor, actor.ending)

    def fail_dead(self, actor: LocalActor, task: Task) -> None:
        """Fail a call on a dead actor. Under the lock."""
        if actor.failure is not None:
            self._tasks.fail(task, *actor.failure)
            return
        message = (
            f"{actor.name}.{task.definition.name}() failed because the actor ({actor.id.hex()[:12]}) is dead: "
            f"{actor.cause or 'it has ended'}"
        )
        self._tasks.fail_with(task, ActorDiedError(message, actor_id=actor.id.hex()))

    # -- the end ---------------------------------------------------------------------------------------------------

    def let_go(self, actor: LocalActor) -> bool:
        """End an actor without handles after the calls that it has. Return whether it has ended. Under the lock.

        Until then its entry stays, which keeps the arguments that it is constructed with.
        """
        if actor.state == DEAD:
            if actor.failure is not None:
                self._tasks.failures.dropped(actor.failure, actor.id)
            return True
        if not actor.options.detached and not actor.ending:
            actor.ending = no_handles(actor.options.name)
            self._helpers.submit(lambda: self.after_call(actor))
        return False

    def kill(self, actor: LocalActor, no_restart: bool) -> None:
        """End an actor now; without `no_restart` it may restart. Not under the lock."""
        here = actor.runs_here()
        with self._lock:
            if actor.state == DEAD:
                return
            if no_restart or actor.state in (PENDING, RESTARTING):
                self.die(actor, "it was killed by kernel.kill(actor)")
                again = False
            else:
                again = self.worker_lost(actor, "it was killed by kernel.kill(actor, no_restart=False)")
        if again and here:
            self._helpers.submit(lambda: self.start(actor))
        elif again:
            self.start(actor)
        if here:
            raise ExitActor

    def worker_lost(self, actor: LocalActor, cause: str) -> bool:
        """Restart an actor as if its process had died, and return True; if it may not, end it. Under the lock."""
        if actor.state != ALIVE:
            return False
        actor.cause = cause
        if actor.ending or actor.restarts_left == 0:
            self.die(actor, actor.ending or cause)
            return False
        actor.restarts_left -= 1 if actor.restarts_left > 0 else 0
        actor.attempt += 1
        actor.state = RESTARTING
        interrupted = [task for task, _ in actor.running.values()]
        self._close(actor)
        again = []
        for task in interrupted:
            error = ActorUnavailableError(
                f"{actor.name}.{task.definition.name}() may or may not have run: the actor ({actor.id.hex()[:12]}) "
                f"died and is restarting: {cause}. Set max_task_retries to have such calls made again",
                actor_id=actor.id.hex(),
            )
            if self._tasks.retry_or_fail(task, error):
                task.place = actor
                again.append(task)
        actor.queue.extendleft(reversed(again))
        return True

    def die(self, actor: LocalActor, cause: str, failure: tuple[int, bytes] | None = None) -> None:
        """End an actor for good, and fail its calls. Under the lock."""
        if actor.state == DEAD:
            return
        actor.state, actor.cause, actor.failure = DEAD, cause, failure
        if failure is not None:
            self._tasks.failures.constructor_failed(actor.id, actor.name, failure)
        unfinished = [task for task, _ in actor.running.values()] + list(actor.queue)
        actor.queue.clear()
        self._close(actor)
        self._names.remove(actor.namespace, actor.description)
        for task in unfinished:
            self._tasks.running.pop(task.id, None)
            self.fail_dead(actor, task)
        self._dead.append(actor.id)
        while len(self._dead) > KEPT_DEAD:
            del self.actors[self._dead.popleft()]
        self._tasks.ownership.free_unneeded(actor.creation.all_entries()[0])

    def _close(self, actor: LocalActor) -> None:
        """End the actor's process, as it were: nothing that it still does is heard."""
        if actor.channel is not None:
            actor.channel.closed = True
        if actor.loop is not None:
            actor.loop.stop()
            actor.loop = None
        for id in list(actor.running):
            run = self._streaming.runs.pop(id, None)
            if run is not None:
                run.ended = True
        actor.running.clear()
        actor.leaving = None
        for group in actor.groups.values():
            group.active = 0
        layer = self._layers.pop(actor.id, None)
        if layer is not None:
            self._environments.leave(layer)
        place, actor.place = actor.place, None
        held, actor.instance = [actor.instance], None
        self._helpers.submit(held.clear)  # Its destructor may call anything there.
        if place is not None:
            self._resources.release(place.allocation)
