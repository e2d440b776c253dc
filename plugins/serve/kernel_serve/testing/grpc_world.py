"""A replica behind a proxy's gRPC server in one process, with only a link between them: for tests of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from random import Random
from typing import Any

import grpc.aio

from kernel.metrics.registry import MetricRegistry
from kernel_serve.metrics.replica import ReplicaMetrics
from kernel_serve.proxy.grpc_server import GRPCServer
from kernel_serve.replica.gate import AdmissionGate
from kernel_serve.replica.grpc_calls import GRPCCalls
from kernel_serve.replica.request_intake import RequestIntake
from kernel_serve.replica.user_code import UserCode
from kernel_serve.routing.dispatcher import Dispatcher, RoutedRequest
from kernel_serve.settings import GRPCOptions
from kernel_serve.values import Endpoint, Replica, ReplicaSet, Target
from kernel_serve.wire.link import RequestLink

SECONDS = 120.0
"""The longest time in seconds for a program, and for what it waits for: the machine may be busy."""

Program = Callable[[Any, "OneReplica", Any], Coroutine[Any, Any, Any]]


class OneReplica:
    """A router with one replica, and only a link between them. It records what happens.

    `failure` is the error with which calls fail; `fails` returns, once, the error of the next call. `request_timeout_s`
    is the deployment's own setting.
    """

    def __init__(self, target: type, endpoints: tuple[Endpoint, ...], request_timeout_s: float | None = None) -> None:
        self.endpoints = endpoints
        self.code = UserCode(target, (), {}, 4)
        self.failure: Exception | None = None
        self.fails: Callable[[], Exception] | None = None
        self.ended: list[Any] = []
        self.opened: list[tuple[str, dict[str, Any], float | None]] = []
        self.copies: list[tuple[str, dict[str, Any], bytes, float | None]] = []
        self.repeatable: list[bool] = []
        self.address = ""
        self.request_timeout_s = request_timeout_s

    async def begin(self) -> None:
        """Make the user's object, and the link. On the event loop that serves."""
        await self.code.construct()
        loop = asyncio.get_running_loop()
        metrics = ReplicaMetrics(MetricRegistry(), "app", "Greeter", "a")
        self.intake = RequestIntake(
            AdmissionGate(100), {"grpc": GRPCCalls(self.code, "app", "Greeter").handle}, metrics
        )

        def to_far(data: bytes) -> None:
            loop.call_soon(self.far.feed, data)

        def to_near(data: bytes) -> None:
            loop.call_soon(self.near.feed, data)

        self.near = RequestLink(to_far)
        self.far = RequestLink(to_near, self.intake.take)

    def dispatcher(self, key: str) -> Dispatcher:
        """Return a dispatcher that knows this replica, or fails."""
        return _OneWay(key, self)

    def copy(self, key: str, meta: dict[str, Any], body: bytes, timeout: float | None) -> None:
        """Record what a shadow would be sent."""
        self.copies.append((key, meta, body, timeout))


class _OneWay(Dispatcher):
    def __init__(self, key: str, replica: OneReplica) -> None:
        super().__init__(key, "", Random(), lambda: None)
        self._replica = replica
        self.update(ReplicaSet(key, (Replica("a", "", "", None, "1", 1000),), -1, replica.request_timeout_s))
        self.linked("a", replica.near)

    def submit(self, request: RoutedRequest, timeout: float | None = None) -> None:
        replica = self._replica
        replica.opened.append((self.key, request.meta, timeout))
        replica.repeatable.append(request.repeatable)
        fails, replica.fails = replica.fails, None
        failure = fails() if fails is not None else replica.failure
        if failure is not None:
            request.fail(failure)
        else:
            super().submit(request, timeout)


def endpoints_of(*applications: str) -> tuple[Endpoint, ...]:
    """Return the endpoints of applications, each with its name as its route."""
    return tuple(Endpoint(name, f"/{name}", (Target(f"{name}#Greeter"),)) for name in applications)


def serve_grpc(
    target: type,
    program: Program,
    stub: Callable[[Any], Any],
    options: GRPCOptions,
    endpoints: tuple[Endpoint, ...] = endpoints_of("app"),
    channel: Callable[[str], Any] = grpc.aio.insecure_channel,
    request_timeout_s: float | None = None,
) -> Any:
    """Run `program(stub, replica, channel)` against a deployment of class `target`; it may take two minutes."""

    async def whole() -> Any:
        replica = OneReplica(target, endpoints, request_timeout_s)
        await replica.begin()
        server = GRPCServer(replica, options, on_ended=replica.ended.append, shadow=replica.copy)
        replica.address = await server.start()
        try:
            async with channel(replica.address) as made:
                return await program(stub(made), replica, made)
        finally:
            await server.drain(0)

    return asyncio.run(asyncio.wait_for(whole(), SECONDS))


def with_enough_time(test: Callable[[float], bool], seconds: float) -> None:
    """Run `test(seconds)`, with ever more seconds until it returns True: it has come to what it shows then.

    It is for time limits that must be over after something has begun. Raises AssertionError if it never returns True.
    """
    while not test(seconds):
        assert seconds < SECONDS, f"it did not come to what it shows within {seconds:g} s"
        seconds *= 4


async def in_time(answers: Coroutine[Any, Any, Any]) -> bool:
    """Return whether calls had these answers before their time was over."""
    try:
        await answers
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError):  # the latter for messages after the end
        return False
    return True


class NeverEnding:
    """A service whose answers never end. Each method records in `ended` that it was cancelled."""

    ended: list[str]

    async def Greet(self, request: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append("Greet")

    async def Spell(self, request: Any) -> AsyncIterator[Any]:
        try:
            while True:
                yield request
                await asyncio.sleep(0.001)
        finally:
            self.ended.append("Spell")
