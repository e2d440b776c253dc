"""Carry out the instructions for replicas."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import kernel
from kernel_serve.control.actor_driver import ActorDriver
from kernel_serve.control.instructions import (
    CheckReplica,
    DrainReplica,
    Instruction,
    KillReplica,
    Reconfigure,
    StartReplica,
)
from kernel_serve.control.placement import choose_node, could_fit, wanted_of
from kernel_serve.errors import said_by
from kernel_serve.tracebacks import user_traceback
from kernel_spec.errors import ActorDiedError, KernelError, PlacementGroupNotFoundError

PLACE_SECONDS = 1.0
"""Seconds until a starting replica without a place to run is asked for the reason, and from question to question."""
POLITE_SECONDS = 0.5
"""The least time in seconds that a replica drains, so that routers learn of it before its process ends."""
DRAIN_MARGIN = 5.0
_EXPLAINED = 5


class ReplicaDriver(ActorDriver):
    """Replicas. Each is an actor; one with bundles has a placement group of the same name as well."""

    kind = "replica"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._bundled: set[str] = set()
        self._assigned: dict[str, tuple[str, str]] = {}
        """The deployment and the node of each replica with a limit of replicas per node, by id."""
        self._starting: dict[str, StartReplica] = {}
        self._looking = False

    def carry_out(self, instruction: Instruction) -> None:
        """Begin to carry out an instruction. Events report what comes of it."""
        if isinstance(instruction, StartReplica):
            self.run(self._start(instruction))
        elif isinstance(instruction, CheckReplica):
            self.run(self._check(instruction))
        elif isinstance(instruction, Reconfigure):
            self.run(self._reconfigure(instruction))
        elif isinstance(instruction, DrainReplica):
            self.run(self._drain(instruction))
        elif isinstance(instruction, KillReplica):
            self.run(self._kill(instruction.id))

    def assign(self, id: str, key: str, node: str) -> None:
        """Count an existing replica for its node."""
        self._assigned[id] = (key, node)

    def bundle(self, id: str) -> None:
        """Note that an existing replica has a placement group."""
        self._bundled.add(id)

    # -- starting --------------------------------------------------------------------------------------------------

    async def _start(self, start: StartReplica) -> None:
        id = start.id
        self._starting[id] = start
        asyncio.get_running_loop().call_later(PLACE_SECONDS, self._look)
        try:
            options = await self._options(start)
            if options is None:
                return
            handle = await self.make(id, start.resume, options, id, start.spec, start.route_prefix, start.standing)
            socket, node = await handle.start.remote()
            await asyncio.wait_for(handle.check_health.remote().as_future(), start.spec.settings.health_check_timeout_s)
            self._told("ready", id, node, socket)
        except (asyncio.TimeoutError, TimeoutError) as error:
            await self._give_up(id, f"its first check of health did not answer in time: {error}")
        except ActorDiedError as error:
            if not self.is_doomed(id):
                await self._give_up(id, said_by(error))
        except Exception as error:
            await self._give_up(id, user_traceback(error))
        finally:
            self._starting.pop(id, None)

    async def _give_up(self, id: str, message: str) -> None:
        if self.is_doomed(id):
            return
        await self._end(id)
        self._told("failed", id, message)

    async def _options(self, start: StartReplica) -> dict[str, Any] | None:
        """Return the options of the actor; None if it is ended before it has a node."""
        settings = start.spec.settings
        options = dict(settings.actor_options)
        if settings.placement_group_bundles:
            self._bundled.add(start.id)
            group = await self.in_thread(self._group, start)
            options["scheduling_strategy"] = kernel.PlacementGroupSchedulingStrategy(group, 0, True)
        elif settings.max_replicas_per_node:
            node = await self._choose(start, settings.max_replicas_per_node)
            if node is None:
                return None
            options["scheduling_strategy"] = kernel.NodeAffinitySchedulingStrategy(node, soft=False)
        return options

    def _group(self, start: StartReplica) -> Any:
        settings, name = start.spec.settings, self.name_of(start.id)
        if start.resume:
            try:
                return kernel.get_placement_group(name)
            except PlacementGroupNotFoundError:
                pass
        bundles = [dict(bundle) for bundle in settings.placement_group_bundles]
        return kernel.placement_group(
            bundles, strategy=settings.placement_group_strategy, name=name, lifetime="detached"
        )

    async def _choose(self, start: StartReplica, limit: int) -> str | None:
        wanted = wanted_of(start.spec.settings.actor_options)
        while start.id in self._starting and not self.is_doomed(start.id):
            rows = await self.in_thread(kernel.nodes)
            taken: dict[str, int] = {}
            for key, node in self._assigned.values():
                if key == start.spec.key:
                    taken[node] = taken.get(node, 0) + 1
            chosen = choose_node(wanted, rows, taken, limit)
            if chosen is not None:
                self._assigned[start.id] = (start.spec.key, chosen)
                return chosen
            reason = f"no node has room and fewer than {limit} replicas of it (max_replicas_per_node)"
            self._told("waits", start.id, reason, could_fit([wanted], rows))
            await asyncio.sleep(PLACE_SECONDS)
        return None

    def _look(self) -> None:
        if self._starting and not self._looking:
            self._looking = True
            self.run(self._look_at_places())

    async def _look_at_places(self) -> None:
        """While replicas start, find out which of them have no place to run, and why."""
        try:
            while self._starting:
                rows = {row["name"]: row for row in await self.in_thread(kernel.actors, False)}
                nodes = await self.in_thread(kernel.nodes)
                explained = 0
                for id, start in list(self._starting.items()):
                    row, handle = rows.get(self.name_of(id)), self.handles.get(id)
                    if row is None or handle is None:
                        continue
                    if row["state"] != "PENDING_CREATION":
                        self._told("waits", id, "", True)
                        continue
                    explained += 1
                    reason = "there is no room for it"
                    if explained <= _EXPLAINED:
                        reason = await self.in_thread(kernel.explain, handle)
                    self._told("waits", id, reason, could_fit(_parts(start), nodes))
                await asyncio.sleep(PLACE_SECONDS)
        finally:
            self._looking = False

    # -- running replicas ------------------------------------------------------------------------------------------

    async def _check(self, check: CheckReplica) -> None:
        handle = self.handles.get(check.id)
        if handle is None:
            return  # its end was reported
        try:
            await asyncio.wait_for(handle.check_health.remote().as_future(), check.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            self._told("unhealthy", check.id, f"it did not answer a check of health within {check.timeout:g} s")
        except ActorDiedError:
            pass  # the watch of its end reports it
        except Exception as error:
            self._told("unhealthy", check.id, user_traceback(error))
        else:
            self._told("healthy", check.id)

    async def _reconfigure(self, order: Reconfigure) -> None:
        handle = self.handles.get(order.id)
        if handle is None:
            return
        try:
            await handle.reconfigure.remote(order.settings, order.standing)
        except ActorDiedError:
            pass
        except Exception as error:
            self._told("reconfigure_failed", order.id, user_traceback(error))
        else:
            self._told("reconfigured", order.id)

    # -- ending ----------------------------------------------------------------------------------------------------

    async def _drain(self, drain: DrainReplica) -> None:
        handle = self.handles.get(drain.id)
        polite = asyncio.get_running_loop().time() + POLITE_SECONDS
        if handle is not None:
            try:
                work = handle.drain.remote(drain.wait, drain.timeout).as_future()
                await asyncio.wait_for(work, drain.timeout + DRAIN_MARGIN)
                await asyncio.sleep(polite - asyncio.get_running_loop().time())
            except (asyncio.TimeoutError, TimeoutError, KernelError):
                pass  # it is killed now, or has ended
        await self._kill(drain.id)

    async def _kill(self, id: str) -> None:
        self._starting.pop(id, None)
        await self._end(id)
        self._told("gone", id)

    async def _end(self, id: str) -> None:
        await self.end(id)
        self._assigned.pop(id, None)
        if id in self._bundled:
            self._bundled.discard(id)
            await self.in_thread(self._remove_group, self.name_of(id))

    @staticmethod
    def _remove_group(name: str) -> None:
        with contextlib.suppress(PlacementGroupNotFoundError):
            kernel.remove_placement_group(kernel.get_placement_group(name))


def _parts(start: StartReplica) -> list[dict[str, float]]:
    settings = start.spec.settings
    if settings.placement_group_bundles:
        return [dict(bundle) for bundle in settings.placement_group_bundles]
    return [wanted_of(settings.actor_options)]
