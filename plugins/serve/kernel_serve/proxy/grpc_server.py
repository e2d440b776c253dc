"""The gRPC server of a proxy: it passes messages on as bytes, whatever the services are."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from kernel_serve.proxy.grpc_call import EndedCall, GRPCCall
from kernel_serve.proxy.grpc_routing import GRPCRouter, GRPCRouting, Shadow
from kernel_serve.proxy.ports import cannot_listen, check_free
from kernel_serve.proxy.syn_filter import filter_syns, settled
from kernel_serve.proxy.tls import grpc_credentials
from kernel_serve.rpc.methods import RPCMethod, all_methods
from kernel_serve.settings import GRPCOptions

LARGEST_MESSAGE = 256 << 20
"""The largest message in bytes. A message is in memory as a whole, in the proxy and in the replica."""
_LOOK_SECONDS = 0.05


class GRPCServer:
    """Serves the services that the options name, on the running event loop."""

    def __init__(
        self,
        router: GRPCRouter,
        options: GRPCOptions,
        host: str = "127.0.0.1",
        shared: bool = False,
        on_ended: Callable[[EndedCall], None] = lambda call: None,
        shadow: Shadow = lambda key, meta, body, timeout: None,
    ) -> None:
        """Make a server that does not listen yet.

        With `shared`, other servers may have the same port. `on_ended` is called for each finished call. `shadow` sends
        a copy of a call to a deployment. Raises DeploymentError for a bad servicer function.
        """
        self._routing = GRPCRouting(router, options, shadow)
        self._on_ended = on_ended
        self._options = options
        self._host = f"[{host}]" if ":" in host else host
        self._shared = shared
        self._methods = all_methods(options.grpc_servicer_functions, options.app_dir)
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_send_message_length", LARGEST_MESSAGE),
                ("grpc.max_receive_message_length", LARGEST_MESSAGE),
                ("grpc.so_reuseport", 1),
            ]
        )
        self._health: Any = None
        self._port = 0

    async def start(self, patience: float = 0.0) -> str:
        """Listen, and return the address, such as "127.0.0.1:9000".

        Wait up to `patience` seconds for a port that is taken.

        Raises ServeError when the port is taken, or its certificate can't be used.
        """
        credentials = await asyncio.to_thread(grpc_credentials, self._options)
        self._server.add_generic_rpc_handlers([_Handlers(self._methods, self)])
        services = sorted({method.service for method in self._methods.values()})
        await self._add_health(services)
        if self._options.enable_reflection:
            self._add_reflection(services)
        await self._await_port(patience)
        self._port = self._listen(credentials)
        await self._server.start()
        return f"{self._host}:{self._port}"

    async def _await_port(self, seconds: float) -> None:
        """Return when the port is free, or may be shared, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not self._shared and loop.time() < deadline:
            try:
                check_free(self._host.strip("[]"), self._options.port)
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    return  # the error of listening says it better
            await asyncio.sleep(_LOOK_SECONDS)

    def _listen(self, credentials: Any) -> int:
        """Bind the port, and return it. Raises ServeError with the reason, which gRPC's own errors lack.

        gRPC alone would also share the port with any program.
        """
        wanted, host = self._options.port, self._host.strip("[]")
        address = f"{self._host}:{wanted}"
        try:
            if not self._shared:
                check_free(host, wanted)
            if credentials is None:
                return int(self._server.add_insecure_port(address))
            return int(self._server.add_secure_port(address, credentials))
        except OSError as error:
            raise cannot_listen("take gRPC", host, wanted, error, "grpc_options") from error
        except RuntimeError as error:
            reason = OSError(errno.EIO, "gRPC could not bind it")
            try:
                check_free(host, wanted)
            except OSError as known:
                reason = known
            raise cannot_listen("take gRPC", host, wanted, reason, "grpc_options") from error

    def filter_syns(self) -> None:
        """Have new connections reach other servers with the same port."""
        filter_syns(self._port)

    async def drain(self, seconds: float | None = None, others: bool = False) -> None:
        """Take no more calls; return when those under way are answered, or cut off after `seconds`.

        With `others`, servers with the same port, no connection that is made meanwhile is refused.
        """
        if others:
            await settled(self._port)
        if self._health is not None:
            await self._health.enter_graceful_shutdown()
        await self._server.stop(seconds)

    async def _add_health(self, services: Sequence[str]) -> None:
        try:
            from grpc_health.v1 import health, health_pb2, health_pb2_grpc
        except ImportError:
            return
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for service in ("", *services):
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)

    def _add_reflection(self, services: Sequence[str]) -> None:
        try:
            from grpc_reflection.v1alpha import reflection
        except ImportError:
            return
        more = ("grpc.health.v1.Health",) if self._health is not None else ()
        reflection.enable_server_reflection((*services, *more, reflection.SERVICE_NAME), self._server)

    # -- calls -----------------------------------------------------------------------------------------------------

    async def one(self, method: RPCMethod, context: Any) -> bytes:
        """Answer a call with one message."""
        given = None if method.streams_in else await context.read()
        message = b""
        async with GRPCCall(self._routing, self._on_ended, method, context) as call:
            incoming = await call.open(given)
            message = await incoming.next() or b""
            while await incoming.next() is not None:
                pass
            await call.finish(incoming)
        return message

    async def many(self, method: RPCMethod, context: Any) -> None:
        """Answer a call with a stream of messages, as fast as the client takes them."""
        given = None if method.streams_in else await context.read()
        async with GRPCCall(self._routing, self._on_ended, method, context) as call:
            incoming = await call.open(given)
            message = await incoming.next()
            call.answering()
            while message is not None:
                await context.write(message)
                message = await incoming.next()
            await call.finish(incoming)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a method; handlers pass messages as bytes."""

    def __init__(self, methods: dict[str, RPCMethod], server: GRPCServer) -> None:
        self._found = {path: _handler(method, server) for path, method in methods.items()}

    def service(self, details: Any) -> Any:
        """Return the handler; None for an unknown method, which gRPC answers with UNIMPLEMENTED."""
        return self._found.get(details.method)


def _handler(method: RPCMethod, server: GRPCServer) -> Any:
    """Return gRPC's handler. It reads all requests as streams: gRPC would ignore a call that lacks its one message."""
    if method.streams_out:

        async def many(_: Any, context: Any) -> None:
            await server.many(method, context)

        return grpc.stream_stream_rpc_method_handler(many)

    async def one(_: Any, context: Any) -> bytes:
        return await server.one(method, context)

    return grpc.stream_unary_rpc_method_handler(one)
