"""The controller: the one actor that decides what Serve runs. It is a shell around `state.py`, which decides.

It can die at any time: the kernel restarts it, and it reads its record, finds the running replicas and proxies by their
names, and goes on. Requests never pass through it, so they are not affected.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import kernel
from kernel_serve.autoscaling import Autoscaler, RouterReports
from kernel_serve.control import views
from kernel_serve.control.instructions import (
    CheckProxy,
    DrainProxy,
    Instruction,
    KillProxy,
    PublishTopic,
    StartProxy,
    StartReplica,
)
from kernel_serve.control.memory import ControllerMemory
from kernel_serve.control.proxy_driver import ProxyDriver
from kernel_serve.control.proxy_states import NodeFacts, ProxyWish
from kernel_serve.control.recovery import recover
from kernel_serve.control.replica_driver import ReplicaDriver
from kernel_serve.control.replica_sets import replica_set_of, unpublished_value
from kernel_serve.control.replica_state import STARTING
from kernel_serve.control.scaling import Scaling
from kernel_serve.control.state import ServeState
from kernel_serve.control.topics import ControllerTopics
from kernel_serve.errors import NotServingError, ServeError
from kernel_serve.logs import logger
from kernel_serve.metrics.callers import CallerSnapshots
from kernel_serve.metrics.controller import ControllerMetrics
from kernel_serve.metrics.process import watch_process
from kernel_serve.metrics.registry import REGISTRY
from kernel_serve.names import missing
from kernel_serve.settings import GRPCOptions, HTTPOptions, ProxyLocation
from kernel_serve.values import ENDPOINTS, ApplicationSpec, Endpoint, RouterReport
from kernel_spec.metrics import MetricsSnapshot

T = TypeVar("T")

_log = logger()

NODE_SECONDS = 1.0
"""Seconds between two looks at the session's nodes."""
TROUBLE_SECONDS = 1.0
PROXY_SECONDS = 60.0
"""The longest time in seconds that `configure_proxies` waits until the proxies listen."""


_FAILURES = ("failed", "ended")
"""The events of a replica that could not start, or whose process has ended."""


class Controller:
    """Runs Serve, as an actor. It creates actors of `replica_class` and `proxy_class`, for which tests give others."""

    def __init__(self, replica_class: type | None = None, proxy_class: type | None = None) -> None:
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="serve-controller")
        self._memory = ControllerMemory()
        self._state = ServeState(_new_id, _scaling())
        self._topics = ControllerTopics(secrets.token_hex(4), unpublished_value)
        self._replicas = ReplicaDriver(replica_class or _replica_class(), self._of_replica, self._threads)
        self._proxies = ProxyDriver(proxy_class or _proxy_class(), self._of_proxy, self._threads)
        self._wake = asyncio.Event()
        self._turn_over = asyncio.Event()
        """Set and replaced at the end of each turn.

        All that was known at the turn's begin is then decided and written down.
        """
        self._begun = self._ended = 0
        self._ready = asyncio.Event()
        self._metrics = ControllerMetrics(REGISTRY)
        self._callers = CallerSnapshots()
        watch_process(REGISTRY, "controller", "controller")
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._live()), loop.create_task(self._see_nodes())]

    # -- requests of users -----------------------------------------------------------------------------------------

    async def deploy(self, applications: list[ApplicationSpec]) -> None:
        """Make these applications the ones to run, all or none; return when that is written down.

        Raises DeploymentError for an application that can't be deployed.
        """
        await self._ready.wait()
        self._state.deploy(applications, time.monotonic(), time.time())
        await self._settle()

    async def delete(self, names: Iterable[str]) -> list[str]:
        """Delete applications, and return once that is written down. The result has a sentence for each unknown name.

        Raises DeploymentError for a backend that is in use.
        """
        await self._ready.wait()
        unknown = self._state.delete(names, time.monotonic())
        await self._settle()
        return unknown

    async def status(self) -> dict[str, Any]:
        """Return everything that runs, as plain values (see `views.py`)."""
        await self._ready.wait()
        return {**views.status(self._state, time.monotonic()), "controller_pid": os.getpid()}

    async def metrics_sources(self) -> tuple[list[MetricsSnapshot], dict[str, Any]]:
        """Return the metrics that the controller has, and by name the actors to ask for theirs.

        The controller has its own metrics, and those that programs reported.
        """
        await self._ready.wait()
        starting = {
            replica.id
            for deployment in self._state.deployments.values()
            for replica in deployment.replicas.values()
            if replica.phase == STARTING
        }
        replicas = {f"replica {id}": actor for id, actor in self._replicas.handles.items() if id not in starting}
        proxies = {f"proxy {id}": actor for id, actor in self._proxies.handles.items()}
        return [REGISTRY.snapshot(), *self._callers.snapshots(time.monotonic())], {**proxies, **replicas}

    async def specification(self, name: str) -> ApplicationSpec:
        """Return what was deployed last as the application `name`. Raises NotServingError for an unknown name."""
        await self._ready.wait()
        goals = {name: each.goal for name, each in self._state.applications.items() if not each.deleting}
        if name not in goals:
            raise NotServingError(missing("application", name, goals))
        return goals[name]

    async def history(self, key: str = "") -> list[str]:
        """Return the events of the deployment `key`, or (with "") of all deployments and proxies, oldest first."""
        await self._ready.wait()
        return views.history(self._state, key)

    async def wait_until(self, name: str, statuses: Iterable[str], timeout: float | None = None) -> dict[str, Any]:
        """Return the status and the message of an application, once the status is one of `statuses`.

        After `timeout` seconds they are returned in any case. The result also has `versions`, topic to published
        version. The proxies know these versions by then.
        """
        await self._ready.wait()
        wanted = set(statuses)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            status, message = views.status_of(self._state, name, time.monotonic())
            left = None if deadline is None else deadline - time.monotonic()
            if status in wanted or (left is not None and left <= 0):
                await self._over(self._begun)  # A turn may have decided already, and not published yet.
                return {"status": status, "message": message, "versions": await self._spread()}
            await self._next_turn(left)

    async def set_endpoint(self, endpoint: Endpoint) -> dict[str, str]:
        """Create or change an endpoint. Return the published versions by topic, once the proxies know them.

        Raises DeploymentError for a bad endpoint, and NotServingError for unknown deployments.
        """
        await self._ready.wait()
        self._state.set_endpoint(endpoint)
        await self._settle()
        return await self._spread()

    async def delete_endpoint(self, name: str) -> dict[str, str]:
        """Delete an endpoint that was set by hand; return as `set_endpoint` does.

        Raises NotServingError for an unknown name.
        """
        await self._ready.wait()
        self._state.delete_endpoint(name)
        await self._settle()
        return await self._spread()

    async def _spread(self) -> dict[str, str]:
        """Return the published versions by topic, once the proxies know them: callers may rely on them at once."""
        versions = self._topics.versions()
        await self._proxies.spread(versions)
        return versions

    async def configure_proxies(
        self, location: ProxyLocation | None, http: HTTPOptions | None, grpc: GRPCOptions | None
    ) -> None:
        """Change where proxies run, and their options.

        Return once they listen, and new connections reach no earlier proxy.

        An argument that is None keeps what was set before, or the default. Raises ServeError when a proxy can't listen;
        then everything is as it was before.
        """
        await self._ready.wait()
        proxies = self._state.proxies
        before = proxies.wish
        stays = before or ProxyWish("EveryNode", HTTPOptions(), GRPCOptions())
        wish = ProxyWish(location or stays.location, http or stays.http, grpc or stays.grpc)
        proxies.configure(wish, time.monotonic())
        self._state.changed = True
        self._wake.set()
        deadline = time.monotonic() + PROXY_SECONDS
        while not proxies.settled and time.monotonic() < deadline:
            if trouble := proxies.trouble():
                proxies.configure(before, time.monotonic())
                self._state.changed = True
                await self._settle()
                raise ServeError(trouble)
            await self._next_turn(1.0)
        await self._settle()

    async def shutdown(self) -> None:
        """Delete everything. Return when nothing is left but this actor, which the caller may kill."""
        await self._ready.wait()
        state = self._state
        state.endpoints.by_hand.clear()
        state.delete([name for name, each in state.applications.items() if not each.deleting], time.monotonic())
        state.proxies.configure(None, time.monotonic())
        self._wake.set()
        while state.applications or state.deployments or state.proxies.proxies:
            await self._next_turn(1.0)
        await self._settle()
        for task in self._tasks:
            task.cancel()
        await self._replicas.in_thread(self._memory.clear)

    # -- reports of routers ----------------------------------------------------------------------------------------

    async def watch(self, known: Mapping[str, str | None]) -> dict[str, Any]:
        """Return (version, value) of each topic whose version differs from the known one, as soon as there is one."""
        await self._ready.wait()
        return await self._topics.watch(known)

    async def report(self, report: RouterReport) -> None:
        """Take in how many requests a router has, and its metrics if it reports them."""
        await self._ready.wait()
        self._state.report(report, time.monotonic())
        if report.snapshot is not None:
            self._callers.take(time.monotonic(), report.snapshot)
        if self._state.next_step <= time.monotonic():
            self._wake.set()

    async def lost(self, key: str, replica_id: str, reason: str) -> None:
        """Check the health of a replica at once: a router has lost its link to it."""
        await self._ready.wait()
        self._of_replica("suspect", replica_id, reason)

    # -- the loop --------------------------------------------------------------------------------------------------

    async def _live(self) -> None:
        for instruction in await self._persistently(self._recover):
            self._carry_out(instruction)
        while True:
            await self._persistently(self._take_turn)
            self._ready.set()
            pause = self._state.next_step - time.monotonic()
            if pause > 0:
                with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), min(pause, 3600.0))
            self._wake.clear()

    async def _persistently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` returns. If it raises, log the error and try again, so that the controller never stops."""
        while True:
            try:
                return await work()
            except Exception:
                _log.exception("the controller failed, and tries again")
                await asyncio.sleep(TROUBLE_SECONDS)

    async def _recover(self) -> list[Instruction]:
        self._state = ServeState(_new_id, _scaling())
        await self._look_at_nodes()
        return await recover(self._state, self._memory, self._replicas, self._proxies, _new_id)

    async def _take_turn(self) -> None:
        """Take one turn: decide, write the record, carry out the instructions."""
        state = self._state
        self._begun += 1
        number, changed = self._begun, False
        instructions = state.step(time.monotonic())
        try:
            changed, state.changed = state.changed, False
            if changed:
                data, specs = self._memory.prepare(state)
                await self._replicas.in_thread(self._memory.write, data, specs)
        except Exception:
            state.changed = True
            raise
        finally:
            for instruction in instructions:
                self._carry_out(instruction)
        self._metrics.show(views.counts(state))
        self._ended = number
        over, self._turn_over = self._turn_over, asyncio.Event()
        over.set()

    async def _next_turn(self, timeout: float | None = None) -> None:
        """Return at the end of the next turn, or after `timeout` seconds."""
        with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
            await asyncio.wait_for(self._turn_over.wait(), timeout)

    async def _settle(self) -> None:
        """Return once everything that is known now is decided and written down."""
        self._wake.set()
        await self._over(self._begun + 1)

    async def _over(self, number: int) -> None:
        """Return at the end of the turn of this number, or of a later one."""
        while self._ended < number:
            await self._next_turn()

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, PublishTopic):
            self._publish(instruction.topic)
        elif isinstance(instruction, (StartProxy, CheckProxy, DrainProxy, KillProxy)):
            self._proxies.carry_out(instruction)
        else:
            if isinstance(instruction, StartReplica) and not instruction.resume:
                self._metrics.started(instruction.spec.key)
            self._replicas.carry_out(instruction)

    def _publish(self, topic: str) -> None:
        if topic == ENDPOINTS:
            self._topics.publish(topic, self._state.published_endpoints)
        elif (found := self._state.deployments.get(topic)) is not None:
            self._topics.publish(topic, replica_set_of(found, self._replicas.handles))
        else:
            self._topics.withdraw(topic)
            self._metrics.forget(topic)

    # -- events ----------------------------------------------------------------------------------------------------

    def _of_replica(self, event: str, id: str, *details: Any) -> None:
        """Handle an event of a replica."""
        state, now = self._state.deployment_of(id), time.monotonic()
        if state is None:
            return
        if event in _FAILURES:
            self._metrics.failed(state.key)
        if event == "suspect":
            state.suspect(id, now)
        elif event == "ended":
            state.failed(id, details[0], now)
        else:
            getattr(state, event)(id, *details, now)
        self._wake.set()

    def _of_proxy(self, event: str, id: str, *details: Any) -> None:
        """Handle an event of a proxy."""
        proxies, now = self._state.proxies, time.monotonic()
        if event == "ended":
            proxies.failed(id, details[0], True, now)
        elif event != "suspect":
            getattr(proxies, event)(id, *details, now)
        self._state.changed = True
        self._wake.set()

    async def _see_nodes(self) -> None:
        await self._ready.wait()
        while True:
            await self._persistently(self._look_at_nodes)
            if self._state.next_step <= time.monotonic():
                self._wake.set()
            await asyncio.sleep(NODE_SECONDS)

    async def _look_at_nodes(self) -> None:
        rows = await self._replicas.in_thread(kernel.nodes)
        nodes = {row["NodeID"]: NodeFacts(row["IsHead"], row["State"] != "ALIVE") for row in rows if row["Alive"]}
        self._state.see_nodes(nodes, time.monotonic())


def _new_id(key: str) -> str:
    return f"{key}#{secrets.token_hex(4)}"


def _scaling() -> Scaling:
    return Scaling(Autoscaler, RouterReports(time.monotonic()))


def _replica_class() -> type:
    from kernel_serve.replica.actor import ReplicaActor

    return ReplicaActor


def _proxy_class() -> type:
    from kernel_serve.proxy.actor import ProxyActor

    return ProxyActor
