"""The actor of a replica: the methods that the controller calls.

Requests come by links, and only tunnels' bytes by calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import cloudpickle

import kernel
from kernel_serve import tracing
from kernel_serve.context import ReplicaContext, ReplicaRank, enter_replica
from kernel_serve.logs import logger
from kernel_serve.metrics.process import watch_loop, watch_process
from kernel_serve.metrics.registry import REGISTRY
from kernel_serve.metrics.replica import ReplicaMetrics
from kernel_serve.metrics.routers import watch_router
from kernel_serve.multiplex import loaded
from kernel_serve.replica.asgi_ingress import ASGIIngress, asgi_ingress_of
from kernel_serve.replica.calls import MethodCalls
from kernel_serve.replica.gate import AdmissionGate
from kernel_serve.replica.grpc_calls import GRPCCalls
from kernel_serve.replica.http_calls import HTTPCalls
from kernel_serve.replica.logs import ReplicaLogs
from kernel_serve.replica.request_intake import RequestIntake
from kernel_serve.replica.stored_results import StoredResults
from kernel_serve.replica.user_code import UserCode
from kernel_serve.replica.watchdog import Watchdog
from kernel_serve.routing.loops import data_loop
from kernel_serve.routing.router import dispatchers_of_process
from kernel_serve.settings import DeploymentSettings
from kernel_serve.tracing import setting
from kernel_serve.values import DeploymentSpec, Standing
from kernel_serve.wire import unix
from kernel_serve.wire.tunnel import TunnelEnds
from kernel_spec.metrics import MetricsSnapshot

_log = logger()
END_SECONDS = 3.0
"""The least time in seconds for what users have run at the end of a replica."""


class ReplicaActor:
    """Is one replica of a deployment. All methods are coroutines of the actor's own loop."""

    def __init__(self, replica_id: str, spec: DeploymentSpec, route_prefix: str | None, standing: Standing) -> None:
        self._id = replica_id
        self._spec = spec
        self._standing = standing
        self._metrics = ReplicaMetrics(REGISTRY, spec.application, spec.name, replica_id)
        self._gate = AdmissionGate(spec.settings.max_ongoing_requests)
        self._code: UserCode | None = None
        self._intake: RequestIntake | None = None
        self._ingress_app: ASGIIngress | None = None
        self._tunnels: TunnelEnds | None = None
        self._listening: asyncio.AbstractServer | None = None  # kept, since it ends without a reference
        self._user_config: Any = None
        self._started: asyncio.Future[tuple[str, str]] | None = None
        self._watchdog = Watchdog()
        self._logs = ReplicaLogs(spec.key, replica_id)
        self._stored = StoredResults()

    async def start(self) -> tuple[str, str]:
        """Make the user's object and take requests; return the socket's name and the node's id.

        A second call returns the same: a restarted controller may call again. Raises what the constructor raises.
        """
        if self._started is None:
            self._started = asyncio.ensure_future(self._on_data_loop(self._start()))
        return await asyncio.shield(self._started)

    async def stand_by(self) -> None:
        """Never return: this call fails when the process ends, and so tells the controller of its end."""
        await asyncio.Event().wait()

    async def _start(self) -> tuple[str, str]:
        spec = self._spec
        sys.path[:0] = [directory for directory in spec.path if directory not in sys.path]
        target, args, kwargs = cloudpickle.loads(spec.code)
        code = self._code = UserCode(target, args, kwargs, spec.settings.max_ongoing_requests)
        self._be_seen()
        self._logs.configure(spec.settings)
        await asyncio.to_thread(setting.set_up, "replica", self._id)
        await code.construct()
        self._be_seen()
        await code.reconfigure(spec.settings.user_config, ReplicaRank(self._standing.rank))
        self._user_config = spec.settings.user_config
        ingress = self._ingress_app = await asgi_ingress_of(target, code)
        http = HTTPCalls(code, spec.application, spec.name, ingress, spec.settings.graceful_shutdown_timeout_s)
        calls = MethodCalls(code, spec.application, spec.name, self._stored)
        grpc = GRPCCalls(code, spec.application, spec.name)
        handlers = {
            "call": calls.handle,
            "http": http.handle,
            "websocket": http.handle_websocket,
            "grpc": grpc.handle,
        }
        intake = self._intake = RequestIntake(self._gate, handlers, self._metrics)
        self._logs.attach(intake)
        self._show_metrics()
        self._tunnels = TunnelEnds(intake.take, intake.add, intake.remove)
        loop = asyncio.get_running_loop()

        def tell(models: tuple[str, ...]) -> None:
            loop.call_soon_threadsafe(intake.tell_models, list(models))

        loaded.listen(tell)
        self._watchdog.watch(loop, f"{spec.key}, replica {self._id}")
        name = unix.new_socket_name()
        self._listening = await unix.listen(
            name,
            intake.take,
            lambda protocol: intake.add(protocol.link),
            lambda protocol: intake.remove(protocol.link),
        )
        return name, kernel.get_runtime_context().get_node_id()

    def _be_seen(self) -> None:
        """Update what `get_replica_context()` returns."""
        spec, standing, instance = self._spec, self._standing, self._code and self._code.instance
        rank = ReplicaRank(standing.rank)
        enter_replica(ReplicaContext(spec.application, spec.name, self._id, instance, rank, standing.world_size))

    def _show_metrics(self) -> None:
        gate = self._gate
        self._metrics.watch(lambda: gate.ongoing, lambda: gate.limit, loaded.models)
        watch_process(REGISTRY, "replica", self._id)
        watch_loop(REGISTRY, "replica", self._id, asyncio.get_running_loop())
        watch_router(REGISTRY, f"replica {self._id}", dispatchers_of_process)

    async def metrics(self) -> MetricsSnapshot:
        """Return what this process has counted, even while user code blocks the data loop."""
        return REGISTRY.snapshot()

    async def trace_anew(self) -> None:
        """Apply the session's present setting of tracing."""
        await asyncio.to_thread(setting.set_up_anew, "replica", self._id)

    async def reconfigure(self, settings: DeploymentSettings, standing: Standing) -> None:
        """Apply other settings, or another standing, and pass the object's part on to it.

        Raises what the object raises.
        """

        async def work() -> None:
            assert self._code is not None
            self._gate.limit = settings.max_ongoing_requests
            self._logs.configure(settings)
            if self._intake is not None:
                self._logs.attach(self._intake)
            changed = settings.user_config != self._user_config
            if standing != self._standing:
                self._standing = standing
                self._be_seen()
                changed = changed or self._code.takes_rank
            if changed:
                await self._code.reconfigure(settings.user_config, ReplicaRank(standing.rank))
                self._user_config = settings.user_config

        await self._on_data_loop(work())

    async def check_health(self) -> None:
        """Raise what the object's own check raises. It runs on the data loop, so a blocked loop fails it, too."""
        assert self._code is not None
        await self._on_data_loop(self._code.check_health())

    async def drain(self, wait_seconds: float, timeout_seconds: float) -> int:
        """Take no more requests. Return how many are unanswered when all are answered or the time is over.

        Then the ASGI application, if there is one, is shut down, models are unloaded, and the object's `__del__` is
        called. All of that together has the same time again, and `END_SECONDS` at least.
        """
        if self._intake is None:
            return 0
        intake = self._intake

        async def work() -> int:
            left = await intake.drain(wait_seconds, timeout_seconds)
            ending = asyncio.get_running_loop().create_task(self._end())
            await asyncio.wait([ending], timeout=max(timeout_seconds, END_SECONDS))
            if not ending.done():
                _log.warning(f"the end of {self._spec.key} took too long, and is cut off", replica=self._id)
            self._logs.settle()
            if tracing.active is not None:
                await asyncio.to_thread(tracing.active.flush)
            return left

        left: int = await self._on_data_loop(work())
        return left

    async def _end(self) -> None:
        """Run what users have run at the end of a replica."""
        if self._ingress_app is not None:
            await self._ingress_app.stop()
        await loaded.clear()
        if self._code is not None:
            await self._code.end()

    async def numbers(self) -> dict[str, int]:
        """Return the number of requests under way, and of those that were served."""
        return {"ongoing": self._gate.ongoing, "served": self._gate.served}

    async def collect(self, number: int) -> Any:
        """Return a large result to its caller, or raise what the call raised.

        Raises ServeError when it is not kept any more.
        """
        return self._stored.collect(number)

    async def tunnel(self, id: str) -> AsyncIterator[bytes | None]:
        """Be one end of a link to another node: yield None, then the bytes for the other end."""
        assert self._tunnels is not None
        async for data in self._tunnels.run(id):
            yield data

    async def tunnel_feed(self, id: str, data: bytes) -> None:
        """Take bytes from the other end."""
        assert self._tunnels is not None
        self._tunnels.feed(id, data)

    @staticmethod
    async def _on_data_loop(work: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, data_loop()))
