"""The actor of a proxy: the methods that the controller calls. Requests come in by the proxy's own ports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import kernel
from kernel_serve import tracing
from kernel_serve.errors import ServeError
from kernel_serve.logs.access import AccessLog
from kernel_serve.logs.places import directory
from kernel_serve.logs.rotating import RotatingFile
from kernel_serve.metrics.process import watch_loop, watch_process
from kernel_serve.metrics.registry import REGISTRY
from kernel_serve.metrics.routers import watch_router
from kernel_serve.proxy.application import ProxyApplication
from kernel_serve.proxy.listening import ENDING_SECONDS, HANDING_SECONDS, Heirs, listening_socket
from kernel_serve.proxy.proxied_request import ProxiedRequest
from kernel_serve.proxy.server import HTTPServer
from kernel_serve.proxy.service import ProxyService
from kernel_serve.proxy.syn_filter import filter_syns, settled
from kernel_serve.routing.loops import data_loop
from kernel_serve.routing.router import dispatchers_of_process, process_router
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.tracing import setting
from kernel_serve.values import Listening
from kernel_spec.metrics import MetricsSnapshot


class ProxyActor:
    """Takes requests on one node. All methods are coroutines of the actor's own loop."""

    def __init__(
        self,
        index: int,
        http: HTTPOptions,
        grpc: GRPCOptions,
        shares_grpc: bool = False,
        beside: tuple[str, ...] = (),
        ports_before: tuple[int, ...] = (),
    ) -> None:
        """Make a proxy that does not listen yet.

        `shares_grpc`: another proxy of the session has the gRPC port, or is about to. `beside`: the addresses of other
        proxies of this node. `ports_before`: the ports of the proxy that this one replaces; that may have died, and its
        process may be about to end.
        """
        self._ports_before = ports_before
        self._index = index
        self._shares_grpc = shares_grpc
        self._beside = beside
        self._id = ""
        self._http = http
        self._grpc = grpc
        self._access_log: AccessLog | None = None
        self._server: HTTPServer | None = None
        self._started: asyncio.Future[Listening] | None = None
        self._grpc_server: Any = None
        self._heirs: Heirs | None = None
        self._port = 0

    async def start(self) -> Listening:
        """Listen, and return where. Raises ServeError when a port is taken, or a certificate can't be used.

        A second call returns the same: a restarted controller may call again.
        """
        if self._started is None:
            self._started = asyncio.ensure_future(self._on_data_loop(self._start()))
        return await asyncio.shield(self._started)

    async def stand_by(self) -> None:
        """Never return: this call fails when the process ends, and so tells the controller of its end."""
        await asyncio.Event().wait()

    async def _start(self) -> Listening:
        node = kernel.get_runtime_context().get_node_id()
        patience = self._patience(self._http.port)
        listening, _ = await listening_socket(self._http, node, self._index, self._beside, patience)
        id = self._id = f"{node[:12]}-{self._index}"
        watch_process(REGISTRY, "proxy", id)
        watch_loop(REGISTRY, "proxy", id, asyncio.get_running_loop())
        watch_router(REGISTRY, f"proxy {id}", dispatchers_of_process)
        await asyncio.to_thread(setting.set_up, "proxy", id)
        takes_grpc = bool(self._grpc.grpc_servicer_functions)
        service = ProxyService(process_router(), self._http, id, self._open_access_log(), takes_grpc)
        application = ProxyApplication(service)
        server = self._server = HTTPServer(
            self._http, application, lambda scope, reply: ProxiedRequest(service, scope, reply)
        )
        await service.ready()
        grpc_address = await self._start_grpc(service)
        await server.start(listening)  # last: once requests are taken, nothing may fail any more
        self._heirs = Heirs(listening, node, self._index)
        host, self._port = listening.getsockname()[:2]
        return Listening(f"{host}:{self._port}", grpc_address)

    async def _start_grpc(self, service: ProxyService) -> str:
        """Take gRPC, if there are services for it.

        Returns the address, "" if there are no services. Raises ServeError when its port is taken.
        """
        options = self._grpc
        if not options.grpc_servicer_functions:
            return ""
        from kernel_serve.proxy.grpc_server import GRPCServer

        self._grpc_server = GRPCServer(
            process_router(), options, self._http.host, self._shares_grpc, service.grpc_ended, service.shadows.send
        )
        address: str = await self._grpc_server.start(self._patience(options.port))
        return address

    def _patience(self, port: int) -> float:
        """Return how many seconds to wait for a port that is taken."""
        return ENDING_SECONDS if port in self._ports_before else HANDING_SECONDS

    def _open_access_log(self) -> AccessLog | None:
        wanted = self._http.access_log
        if not wanted:
            return None
        try:
            place = directory(wanted if isinstance(wanted, str) else None)
        except OSError as error:
            raise ServeError(f"the proxy can't write its access log into {wanted}: {error.strerror}") from error
        self._access_log = AccessLog(RotatingFile(os.path.join(place, f"access-proxy-{self._id}.log")))
        return self._access_log

    async def check_health(self) -> None:
        """Raise an error when the loop that serves requests does not answer, or the server has ended."""

        async def work() -> None:
            if self._server is not None and not self._server.serving:
                raise ServeError("the proxy's HTTP server has ended")

        await self._on_data_loop(work())

    async def await_news(self, versions: Mapping[str, str]) -> None:
        """Return when requests are routed by these versions of topics, or later ones."""
        await self._on_data_loop(process_router().await_news(versions))

    async def metrics(self) -> MetricsSnapshot:
        """Return what this process has counted."""
        return REGISTRY.snapshot()

    async def trace_anew(self) -> None:
        """Apply the session's present setting of tracing."""
        await asyncio.to_thread(setting.set_up_anew, "proxy", self._id)

    async def step_aside(self, moved: bool = False) -> None:
        """Return when new connections reach other proxies with the same ports, or are refused.

        `moved`: as for `drain`, which is called next.
        """

        async def work() -> None:
            if self._heirs is not None:
                self._heirs.close()
            if self._server is not None:
                filter_syns(self._port) if moved else self._server.stop_listening()
            if self._grpc_server is not None:
                self._grpc_server.filter_syns()

        await self._on_data_loop(work())

    async def drain(self, patience: float = 0.0, moved: bool = False) -> None:
        """Take no more connections, and return when the requests under way are answered.

        Clients with idle connections get `patience` seconds, in which an answer may ask them to close. With `moved`
        other proxies have the port at another address, and new connections reach those.
        """

        async def work() -> None:
            if self._heirs is not None:
                self._heirs.close()
            servers = []
            if self._server is not None:
                if moved:
                    await settled(self._port)
                servers.append(self._server.drain(patience=patience))
            if self._grpc_server is not None:
                servers.append(self._grpc_server.drain(others=patience > 0))
            await asyncio.gather(*servers)
            if self._access_log is not None:
                self._access_log.settle()
            if tracing.active is not None:
                await asyncio.to_thread(tracing.active.flush)

        await self._on_data_loop(work())

    @staticmethod
    async def _on_data_loop(work: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, data_loop()))
