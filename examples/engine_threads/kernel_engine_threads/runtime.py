"""Tasks and actors, as the public API calls them. `kernel_engine` has the rest: objects, streams, names, cancelling."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition, FunctionDefinition
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.one_process.calls import Call
from kernel_engine.one_process.runtime import OneProcessRuntime
from kernel_engine_threads.actor import Actor
from kernel_engine_threads.cpus import Cpus
from kernel_spec.errors import InfeasibleError
from kernel_spec.ids import ActorId
from kernel_spec.resources import CPU, from_units, to_units


class ThreadsRuntime(OneProcessRuntime):
    """Tasks in a pool of threads, each actor in a thread of its own. See `kernel.runtime.interface.Runtime`."""

    engine = "threads"

    def __init__(self, num_cpus: float | None, namespace: str | None) -> None:
        self._cpus = Cpus(to_units(num_cpus if num_cpus is not None else os.cpu_count() or 1))
        self._actors: dict[bytes, Actor] = {}
        super().__init__(namespace, blocked=self._cpus.lent)

    def submit(self, function: FunctionDefinition, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a task in the pool, once its arguments and its CPUs are there."""
        self.refuse_wishes(f"{function.name}()", function.shape)
        amount = function.shape.wanted.get(CPU, 0)
        if amount > self._cpus.total:
            asked, total = from_units(amount), from_units(self._cpus.total)
            raise InfeasibleError(f"{function.name}() needs {asked:g} CPUs, and this session has {total:g}")
        call = Call(self, function, function.name, function.max_retries, args, kwargs)
        self.begin(call)
        call.when_ready(lambda: self._cpus.run(amount, lambda: call.run(function.function)))
        return call.result

    def create_actor(
        self, definition: ClassDefinition, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ActorId, ObjectRef | None, Mapping[str, Any] | None]:
        """Start the thread of an actor. It takes no CPU from tasks."""
        self.refuse_wishes(
            definition.name, options, max_restarts=options.max_restarts, concurrency_groups=options.concurrency_groups,
            max_concurrency=options.max_concurrency > 1 and options.max_concurrency,
            **{"async def methods": definition.is_async},
        )  # fmt: skip
        creation = Call(self, CallOptions(name="__init__"), f"{definition.name}.__init__", 0, args, kwargs)
        namespace = options.namespace or self.namespace
        with self.lock:
            existing = self.names.existing(namespace, options)
            if existing is not None:
                return existing["id"], None, existing
            self.begin(creation)
            actor = Actor(definition, options, namespace, creation, self._actor_ended)
            self._actors[actor.id] = actor
            self.names.add(namespace, actor.description)
        return actor.id, creation.result, None

    def _actor_ended(self, actor: Actor) -> None:
        with self.lock:
            self.names.remove(actor.namespace, actor.description)
            self.break_calls(actor, actor.failure or actor.died("it has ended"))

    def call_actor(
        self, actor: ActorId, method: str, options: CallOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Have the actor make a call after those that came before."""
        known = self._actors[actor]
        call = Call(self, options, f"{known.name}.{method}", options.max_task_retries, args, kwargs, known)
        with self.lock:
            self.begin(call)
            if known.failure is None:
                known.accept(call)
            else:
                self.break_call(call, known.failure)
        return call.result

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """See `Runtime.check_pending_calls`."""
        self.check_limit(self._actors[actor], limit)

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """End an actor: the call that runs goes on, but nobody hears of it."""
        self._actors[actor].end("it was killed by kernel.kill(actor)")

    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """Return what answers the questions that the public API asks about a session."""
        has = {CPU: from_units(self._cpus.total)}
        return {
            "nodes": lambda: [{"NodeID": self.node.hex(), "Alive": True, "State": "ALIVE", "Resources": has}],
            "cluster_resources": lambda: has,
            "available_resources": lambda: {CPU: from_units(max(self._cpus.free, 0))},
            "actors": lambda dead: [actor.description for actor in self._actors.values() if not actor.failure],
        }

    def shutdown(self) -> None:
        """Have everything fail that has not ended. The threads are daemons, which no program waits for."""
        super().shutdown()
        for actor in list(self._actors.values()):
            actor.end("the session was shut down")
