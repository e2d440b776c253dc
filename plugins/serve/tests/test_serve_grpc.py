"""gRPC from a client through the proxy's server to the methods of a deployment, in one process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from kernel_serve import tracing
from kernel_serve.context import batch_requests, current_request
from kernel_serve.errors import (
    BackPressureError,
    DeploymentError,
    DeploymentUnavailableError,
    RequestTimeoutError,
)
from kernel_serve.metrics.proxy import ProxyMetrics
from kernel_serve.rpc.methods import methods_of
from kernel_serve.settings import GRPCOptions
from kernel_serve.testing.grpc_world import (
    SECONDS,
    NeverEnding,
    OneReplica,
    endpoints_of,
    serve_grpc,
    with_enough_time,
)
from kernel_serve.tracing.spans import Tracing
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kernel.metrics.registry import MetricRegistry

ADDER = "greeter_pb2_grpc:add_GreeterServicer_to_server"


def serve(target: type, program: Any, generated: Any, applications: tuple[str, ...] = ("app",), **more: Any) -> Any:
    """Run an async test with a stub, the replica behind it and a channel."""
    options = GRPCOptions(port=0, grpc_servicer_functions=(ADDER,), **more)
    return serve_grpc(target, program, generated[1].GreeterStub, options, endpoints_of(*applications))


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.002)


def words(*texts: str) -> Any:
    import greeter_pb2

    return [greeter_pb2.Word(text=text) for text in texts]


class AsyncGreeter:
    async def Greet(self, request: Any) -> Any:
        return words(f"hello {request.text}")[0]

    async def Spell(self, request: Any, context: Any) -> AsyncIterator[Any]:
        for letter in request.text:
            yield words(letter)[0]

    async def Join(self, requests: AsyncIterator[Any]) -> Any:
        return words("+".join([request.text async for request in requests]))[0]

    async def Echo(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            yield words(request.text * 2)[0]


class PlainGreeter:
    def Greet(self, request: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return words(f"hello {request.text}")[0]

    def Spell(self, request: Any, grpc_context: Any) -> Iterator[Any]:
        yield from words(*request.text)

    def Join(self, requests: Iterator[Any]) -> Any:
        return words("+".join(request.text for request in requests))[0]

    def Echo(self, requests: Iterator[Any], grpc_context: Any) -> Iterator[Any]:
        for request in requests:
            yield words(request.text * 2)[0]


@pytest.mark.parametrize("target", [AsyncGreeter, PlainGreeter])
def test_all_four_kinds_of_methods_answer(target: type, generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        assert (await stub.Greet(words("anna")[0])).text == "hello anna"
        assert [word.text async for word in stub.Spell(words("abc")[0])] == ["a", "b", "c"]
        assert (await stub.Join(iter(words("a", "b", "c")))).text == "a+b+c"
        assert [word.text async for word in stub.Echo(iter(words("a", "b")))] == ["aa", "bb"]
        assert (await stub.Join(iter([]))).text == ""

    serve(target, program, generated)


def test_each_call_is_told_of_when_it_is_over(generated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "active", Tracing(provider))
    metrics = ProxyMetrics(MetricRegistry(), "p")

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        await stub.Greet(words("anna")[0], metadata=(("traceparent", f"00-{'a' * 32}-{'b' * 16}-01"),))
        replica.failure = DeploymentUnavailableError("away")
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.Greet(words("anna")[0])
        await until(lambda: len(replica.ended) == 2)
        for call in replica.ended:
            metrics.grpc_ended(call.target, call.path, call.code.name, call.milliseconds)
            tracing.active.answered_by_grpc(call.span, call.code.value[0], call.replica)  # type: ignore[union-attr]
        assert replica.ended[0].milliseconds > 0 and replica.ended[0].peer.startswith("ipv4:127.0.0.1:")

    serve(AsyncGreeter, program, generated)
    path = "/serve.tests.Greeter/Greet"
    samples = dict(metrics._calls.snapshot().samples)
    assert samples == {("app", "Greeter", path, "OK", "p"): 1, ("app", "Greeter", path, "UNAVAILABLE", "p"): 1}
    (greeted,) = [span for span in exporter.get_finished_spans() if span.attributes.get("rpc.grpc.status_code") == 0]
    assert greeted.name == path[1:] and f"{greeted.parent.span_id:016x}" == "b" * 16


def test_a_stream_of_both_directions_goes_step_by_step(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        call = stub.Echo()
        for text in ("one", "two"):
            await call.write(words(text)[0])
            assert (await call.read()).text == text * 2
        await call.done_writing()
        assert await call.read() is grpc.aio.EOF and await call.code() == grpc.StatusCode.OK

    serve(AsyncGreeter, program, generated)


def test_messages_larger_than_a_frame_arrive_whole(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        text = "x" * (3 << 20)
        assert len((await stub.Greet(words(text)[0])).text) == len(text) + 6
        assert [len(word.text) async for word in stub.Echo(iter(words(text, "", "a")))] == [6 << 20, 0, 2]

    async def with_limit(stub: Any, replica: OneReplica, channel: Any) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(replica.address, options=options) as large:
            await program(generated[1].GreeterStub(large), replica, large)

    serve(AsyncGreeter, with_limit, generated)


def test_the_method_sees_its_context_and_sets_status_and_metadata(generated: Any) -> None:
    seen: list[Any] = []

    class Greeter:
        async def Greet(self, request: Any, context: Any) -> Any:
            seen.append((dict(context.invocation_metadata())["color"], current_request()))
            assert 0 < context.time_remaining() < SECONDS + 1 and context.is_active() and not context.cancelled()
            assert context.peer().startswith("ipv4:127.0.0.1:")
            context.set_trailing_metadata([("shape", "round")])
            if request.text == "set":
                context.set_code(grpc.StatusCode.OUT_OF_RANGE)
                context.set_details("too far")
            if request.text == "abort":
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "there it is")
            return request

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        metadata = (("color", "red"), ("request_id", "r-1"), ("multiplexed_model_id", "m7"))
        call = stub.Greet(words("x")[0], metadata=metadata, timeout=SECONDS)
        assert (await call).text == "x"
        assert dict(await call.trailing_metadata()) == {"request_id": "r-1", "shape": "round"}
        color, request = seen[0]
        assert (color, request.request_id, request.multiplexed_model_id) == ("red", "r-1", "m7")
        for text, code, details in (
            ("set", grpc.StatusCode.OUT_OF_RANGE, "too far"),
            ("abort", grpc.StatusCode.ALREADY_EXISTS, "there it is"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Greet(words(text)[0], metadata=metadata, timeout=SECONDS)
            assert (caught.value.code(), caught.value.details()) == (code, details)
            assert dict(caught.value.trailing_metadata())["shape"] == "round"

    serve(Greeter, program, generated)
    assert batch_requests() == ()


async def status_of(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


def test_what_the_method_raises_is_internal_and_tells_the_client_the_id_alone(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            if request.text == "wrong":
                return "a str"
            raise ValueError("secret")

        async def Spell(self, request: Any) -> AsyncIterator[Any]:
            yield request
            raise ValueError("secret")

        async def Join(self, requests: Any, context: Any) -> Any:
            context.set_code(grpc.StatusCode.INVALID_ARGUMENT)
            context.set_details("no words")
            raise ValueError("secret")

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        expected = (grpc.StatusCode.INTERNAL, "Internal error (request id-7)")
        for text in ("x", "wrong"):
            assert await status_of(stub.Greet(words(text)[0], metadata=[("request_id", "id-7")])) == expected
        call = stub.Spell(words("x")[0], metadata=[("request_id", "id-7")])
        assert (await call.read()).text == "x"
        assert await status_of(call.read()) == expected
        assert await status_of(stub.Join(iter([]))) == (grpc.StatusCode.INVALID_ARGUMENT, "no words")

    serve(Greeter, program, generated)


@pytest.mark.parametrize(
    ("failure", "code", "pushback"),
    [
        (BackPressureError("too many"), grpc.StatusCode.RESOURCE_EXHAUSTED, "1000"),
        (DeploymentUnavailableError("nobody"), grpc.StatusCode.UNAVAILABLE, None),
        (RequestTimeoutError("too late"), grpc.StatusCode.DEADLINE_EXCEEDED, None),
    ],
)
def test_what_a_call_of_the_method_failed_for_is_passed_on(
    failure: Exception, code: grpc.StatusCode, pushback: str | None, generated: Any
) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            raise failure

        async def Spell(self, request: Any) -> AsyncIterator[Any]:
            yield request
            raise failure

        async def Join(self, requests: Any, context: Any) -> Any:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            raise failure

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        metadata = [("request_id", "id-7")]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Greet(words("x")[0], metadata=metadata)
        assert (caught.value.code(), caught.value.details()) == (code, f"{failure} (request id-7)")
        assert dict(caught.value.trailing_metadata()).get("grpc-retry-pushback-ms") == pushback
        spelling = stub.Spell(words("x")[0], metadata=metadata)
        assert (await spelling.read()).text == "x"
        assert (await status_of(spelling.read()))[0] is code
        assert (await status_of(stub.Join(iter(words("x")))))[0] is grpc.StatusCode.NOT_FOUND

    serve(Greeter, program, generated)


def test_a_method_that_is_not_there_is_unimplemented(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        code, details = await status_of(stub.Missing(words("x")[0]))
        assert code is grpc.StatusCode.UNIMPLEMENTED and "has no method 'Missing'" in details
        code, _ = await status_of(channel.unary_unary("/serve.tests.Greeter/Nothing")(b""))
        assert code is grpc.StatusCode.UNIMPLEMENTED
        code, details = await status_of(channel.unary_unary("/serve.tests.Greeter/Greet")(b"\xff\xff"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert details.startswith("/serve.tests.Greeter/Greet was called with 2 bytes that are not its message")

    serve(AsyncGreeter, program, generated)


def test_the_application_is_chosen_by_metadata(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        await stub.Greet(words("x")[0], metadata=[("application", "two")])
        assert replica.opened[-1][0] == "two#Greeter"
        assert await status_of(stub.Greet(words("x")[0], metadata=[("application", "three")])) == (
            grpc.StatusCode.NOT_FOUND,
            "there is no application 'three': give one of these in the metadata as 'application': one, two",
        )
        code, details = await status_of(stub.Greet(words("x")[0]))
        assert code is grpc.StatusCode.NOT_FOUND and details.startswith("the call names no application: give one of")

    serve(AsyncGreeter, program, generated, applications=("one", "two"))


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (BackPressureError("too many"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (DeploymentUnavailableError("nobody"), grpc.StatusCode.UNAVAILABLE),
        (RequestTimeoutError("too late"), grpc.StatusCode.DEADLINE_EXCEEDED),
    ],
)
def test_what_the_router_raises_has_its_status(failure: Exception, code: grpc.StatusCode, generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        replica.failure = failure
        metadata = [("request_id", "id-7")]
        expected = (code, f"{failure} (request id-7)")
        assert await status_of(stub.Greet(words("x")[0], metadata=metadata)) == expected
        assert await status_of(stub.Join(iter(words("x")), metadata=metadata)) == expected
        replica.failure = RuntimeError("a mistake of ours")
        assert await status_of(stub.Greet(words("x")[0], metadata=metadata)) == (
            grpc.StatusCode.INTERNAL,
            "Internal error (request id-7)",
        )

    serve(AsyncGreeter, program, generated)


class Slow(NeverEnding):
    ended: list[str] = []

    async def Echo(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for request in requests:
                yield request
        finally:
            self.ended.append("Echo")


def test_when_the_time_of_a_call_is_over_the_method_is_cancelled(generated: Any) -> None:
    def late(seconds: float) -> bool:
        async def program(stub: Any, replica: OneReplica, channel: Any) -> bool:
            code, _ = await status_of(stub.Greet(words("x")[0], timeout=seconds))
            assert code is grpc.StatusCode.DEADLINE_EXCEEDED
            if replica.opened:
                assert 0 < replica.opened[0][2] < seconds * 1.05  # gRPC rounds up
                await until(lambda: replica.near.exchanges == replica.intake.gate.ongoing == 0)
            return Slow.ended == ["Greet"]  # else its time was over before it had begun

        Slow.ended.clear()
        return bool(serve(Slow, program, generated))

    with_enough_time(late, 1.0)


def test_when_the_client_is_gone_the_method_is_cancelled(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        Slow.ended.clear()
        greet = stub.Greet(words("x")[0])
        spell = stub.Spell(words("x")[0])
        echo = stub.Echo()
        await spell.read()
        await echo.write(words("x")[0])
        await echo.read()
        await until(lambda: replica.intake.gate.ongoing == 3)
        for call in (greet, spell, echo):
            call.cancel()
        await until(lambda: sorted(Slow.ended) == ["Echo", "Greet", "Spell"])
        await until(lambda: replica.intake.gate.ongoing == 0)

    serve(Slow, program, generated)


def test_a_client_that_does_not_read_stops_the_method_and_not_the_others(generated: Any) -> None:
    sent = 0

    class Fast(AsyncGreeter):
        async def Spell(self, request: Any) -> AsyncIterator[Any]:
            nonlocal sent
            for _ in range(200):
                yield words("x" * 1_000_000)[0]
                sent += 1

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        call = stub.Spell(words("x")[0])
        await call.read()
        before = -1
        while before != sent:
            before = sent
            assert (await stub.Greet(words("anna")[0])).text == "hello anna"
            await asyncio.sleep(0.05)
        assert sent < 100
        call.cancel()

    serve(Fast, program, generated)


def test_a_replica_that_is_lost_while_it_answers_is_unavailable(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        call = stub.Spell(words("x")[0], metadata=[("request_id", "id-7")])
        await call.read()
        replica.near.lost("its process ended")

        async def rest() -> None:
            while await call.read() is not grpc.aio.EOF:
                pass

        assert await status_of(rest()) == (grpc.StatusCode.UNAVAILABLE, "its process ended (request id-7)")

    serve(Slow, program, generated)


def test_services_are_learned_from_their_functions(generated: Any) -> None:
    methods = methods_of("greeter_pb2_grpc.add_GreeterServicer_to_server")
    kinds = {method.name: (method.streams_in, method.streams_out) for method in methods.values()}
    assert kinds == {
        "Greet": (False, False),
        "Spell": (False, True),
        "Join": (True, False),
        "Echo": (True, True),
        "Missing": (False, False),
        "Look": (False, False),
    }
    assert {method.service for method in methods.values()} == {"serve.tests.Greeter"}
    assert [name for name in kinds if methods[f"/serve.tests.Greeter/{name}"].repeatable] == ["Look"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:add", "servicer function 'no_such_module:add' can't be imported"),
        ("greeter_pb2_grpc:add", "servicer function 'greeter_pb2_grpc:add' can't be imported"),
        ("greeter_pb2_grpc:grpc", "servicer function 'greeter_pb2_grpc:grpc' is a module, not a function"),
        ("os.path:join", "os.path:join is not an add_..._to_server function that gRPC's compiler generates"),
        ("asyncio.iscoroutine", "is not an add_..._to_server function"),
        ("add", "servicer function 'add' can't be imported"),
    ],
)
def test_what_adds_no_service_is_refused(path: str, message: str, generated: Any) -> None:
    with pytest.raises(DeploymentError, match=message):
        methods_of(path)
