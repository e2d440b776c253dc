"""The end of gRPC calls: deadlines and time limits, statuses, hints for clients that retry, copies for shadows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

pytest.importorskip("h2", reason="h2 is not installed; pip install h2")

import grpc
import grpc.aio
import h2.config
import h2.connection
import h2.events
from kernel_serve.errors import BackPressureError, DeploymentUnavailableError, NotServingError
from kernel_serve.proxy import grpc_server
from kernel_serve.settings import GRPCOptions
from kernel_serve.testing.grpc_world import (
    SECONDS,
    NeverEnding,
    OneReplica,
    in_time,
    serve_grpc,
    with_enough_time,
)
from kernel_serve.values import Endpoint, Target
from kernel_serve.wire import frames

ADDER = "greeter_pb2_grpc:add_GreeterServicer_to_server"
LATE = grpc.StatusCode.DEADLINE_EXCEEDED
METADATA = [("request_id", "id-7")]


def serve(target: type, program: Any, generated: Any, request_timeout_s: float | None = None, **more: Any) -> Any:
    """Run an async test with a stub, the replica behind it and a channel."""
    options = GRPCOptions(port=0, grpc_servicer_functions=(ADDER,), request_timeout_s=request_timeout_s)
    return serve_grpc(target, program, generated[1].GreeterStub, options, **more)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        await asyncio.sleep(0.002)


def word(text: str) -> Any:
    import greeter_pb2

    return greeter_pb2.Word(text=text)


async def end_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """Return the status with which a call ends, and its text."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        if hasattr(call, "read"):
            while await call.read() is not grpc.aio.EOF:
                pass
        else:
            await call
    return caught.value.code(), caught.value.details()


async def opened(address: str, method: str, end: bool, timeout: str) -> Any:
    """Begin a call by hand, with one message; return a reader, a writer, and the state of HTTP/2."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    connection = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    connection.initiate_connection()
    headers = {":method": "POST", ":scheme": "http", ":authority": "x", ":path": f"/serve.tests.Greeter/{method}"}
    headers |= {"content-type": "application/grpc", "te": "trailers", "grpc-timeout": timeout}
    connection.send_headers(1, list(headers.items()))
    message = word("x").SerializeToString()
    connection.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=end)
    writer.write(connection.data_to_send())
    return reader, writer, connection


class Slow(NeverEnding):
    ended: list[str] = []

    async def Join(self, requests: Any) -> Any:
        try:
            return word("".join([request.text async for request in requests]))
        finally:
            self.ended.append("Join")

    async def Echo(self, requests: Any) -> AsyncIterator[Any]:
        try:
            async for request in requests:
                if request.text:
                    yield request
        finally:
            self.ended.append("Echo")


@pytest.fixture(autouse=True)
def nothing_ended() -> None:
    Slow.ended.clear()


def test_a_clients_deadline_is_kept_after_the_first_answer_of_a_stream(generated: Any) -> None:
    def late(seconds: float) -> bool:
        async def program(stub: Any, replica: OneReplica, channel: Any) -> bool:
            spell, echo = stub.Spell(word("x"), timeout=seconds), stub.Echo(timeout=seconds)

            async def answers() -> None:
                assert (await spell.read()).text == "x"
                await echo.write(word("y"))
                assert (await echo.read()).text == "y"

            if not await in_time(answers()):
                return False
            assert (await end_of(spell))[0] is LATE and (await end_of(echo))[0] is LATE
            await until(lambda: sorted(Slow.ended) == ["Echo", "Spell"])
            await until(lambda: [each.code for each in replica.ended] == [LATE, LATE])
            return True

        Slow.ended.clear()
        return bool(serve(Slow, program, generated))

    with_enough_time(late, 1.0)


def test_the_server_ends_a_stream_whose_client_does_not_look_at_the_clock(generated: Any) -> None:
    def late(seconds: float) -> bool:
        async def program(stub: Any, replica: OneReplica, channel: Any) -> bool:
            timeout = f"{seconds * 1000:.0f}m"
            reader, writer, connection = await opened(replica.address, "Spell", end=True, timeout=timeout)
            ends: list[Any] = []
            answered = 0
            while not ends:
                writer.write(connection.data_to_send())
                for event in connection.receive_data(await reader.read(65536)):
                    if isinstance(event, h2.events.DataReceived):
                        answered += 1
                        connection.acknowledge_received_data(event.flow_controlled_length, 1)
                    elif isinstance(event, (h2.events.TrailersReceived, h2.events.StreamReset)):
                        ends.append(event)
            writer.close()
            if answered < 2:
                return False
            assert dict(ends[0].headers)["grpc-status"] == str(LATE.value[0])
            await until(lambda: Slow.ended == ["Spell"])
            return True

        Slow.ended.clear()
        return bool(serve(Slow, program, generated))

    with_enough_time(late, 0.2)


def test_the_limit_of_time_is_for_answers_that_have_not_begun(generated: Any) -> None:
    def late(seconds: float) -> bool:
        async def program(stub: Any, replica: OneReplica, channel: Any) -> bool:
            join, silent, echo = stub.Join(), stub.Echo(), stub.Echo()
            spell = stub.Spell(word("x"))

            async def answers() -> None:
                await join.write(word("a"))
                await silent.write(word(""))
                await echo.write(word("y"))
                assert (await echo.read()).text == "y" and (await spell.read()).text == "x"

            if not await in_time(answers()) or replica.intake.gate.ongoing < 4:
                return False
            for call, name in ((join, "Join"), (silent, "Echo")):
                code, text = await end_of(call)
                assert code is LATE
                said = f"a call of /serve.tests.Greeter/{name} was not answered within {seconds:g} s (request "
                assert text.startswith(said)
            await until(lambda: sorted(Slow.ended) == ["Echo", "Join"])
            await echo.write(word("z"))
            assert (await echo.read()).text == "z" and (await spell.read()).text == "x"
            return True

        Slow.ended.clear()
        return bool(serve(Slow, program, generated, request_timeout_s=seconds))

    with_enough_time(late, 1.0)


def test_a_large_message_has_no_more_time_than_a_small_one(generated: Any) -> None:
    def late(seconds: float) -> bool:
        async def program(stub: Any, replica: OneReplica, channel: Any) -> bool:
            assert (await end_of(stub.Greet(word("x" * 600_000))))[0] is LATE
            await until(lambda: replica.near.exchanges == replica.intake.gate.ongoing == 0)
            return Slow.ended == ["Greet"]  # else its time was over before it had begun

        Slow.ended.clear()
        return bool(serve(Slow, program, generated, request_timeout_s=seconds))

    with_enough_time(late, 0.2)


def test_of_all_limits_of_time_the_shortest_holds_and_a_deployments_own_goes_first(generated: Any) -> None:
    def program(expected: list[float | None]) -> Any:
        async def calls(stub: Any, replica: OneReplica, channel: Any) -> None:
            replica.failure = DeploymentUnavailableError("away")
            for timeout in (None, 500):
                await end_of(stub.Greet(word("x"), timeout=timeout))
            given = [None if each is None else round(each, -2) for _, _, each in replica.opened]
            assert given == expected

        return calls

    settings = {"target": Slow, "stub": generated[1].GreeterStub}
    for ours, deployments, expected in (
        (None, None, [None, 500]),
        (300, None, [300, 300]),
        (300, 700, [700, 500]),
        (700, 300, [300, 300]),
    ):
        options = GRPCOptions(port=0, grpc_servicer_functions=(ADDER,), request_timeout_s=ours)
        serve_grpc(**settings, program=program(expected), options=options, request_timeout_s=deployments)


def test_a_method_that_is_cancelled_by_itself_is_an_internal_error(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            raise asyncio.CancelledError

        async def Spell(self, request: Any) -> AsyncIterator[Any]:
            yield request
            raise SystemExit(3)

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        expected = (grpc.StatusCode.INTERNAL, "Internal error (request id-7)")
        assert await end_of(stub.Greet(word("x"), metadata=METADATA)) == expected
        assert await end_of(stub.Spell(word("x"), metadata=METADATA)) == expected

    serve(Greeter, program, generated)


def test_a_call_without_the_one_message_of_its_method_is_told_so_at_once(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        for name, make in (("Greet", channel.stream_unary), ("Spell", channel.stream_stream)):
            path = f"/serve.tests.Greeter/{name}"
            said = f"{path} takes one message, and the client has sent none (request id-7)"
            expected = (grpc.StatusCode.UNIMPLEMENTED, said)
            assert await end_of(make(path)(iter([]), metadata=METADATA)) == expected
        await until(lambda: [each.code.name for each in replica.ended] == ["UNIMPLEMENTED", "UNIMPLEMENTED"])
        assert replica.opened == []

    serve(Slow, program, generated)


def test_a_message_that_is_too_large_is_no_missing_one(generated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_server, "LARGEST_MESSAGE", 1000)

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        code, text = await end_of(stub.Greet(word("x" * 2000)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text
        await until(lambda: [each.code.name for each in replica.ended] == ["CANCELLED"])

    serve(Slow, program, generated)


@pytest.mark.parametrize("end", ["cancelled", "late", "disconnected"])
def test_messages_that_are_cut_off_are_never_taken_for_all_of_them(generated: Any, end: str) -> None:
    random = Random(1)
    ends: list[int] = []

    async def cut_off(stub: Any, address: str, longest: float) -> None:
        if end == "disconnected":
            _, writer, _ = await opened(address, "Join", end=False, timeout="600S")
            await asyncio.sleep(random.uniform(0, 0.03))
            writer.transport.abort()
            return
        join = stub.Join(timeout=random.uniform(0.01, longest) if end == "late" else None)
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError, asyncio.InvalidStateError):
            for _ in range(random.randrange(4)):
                await join.write(word("x" * random.choice((1, 1000, 100_000))))
            if end == "cancelled":
                await asyncio.sleep(random.uniform(0, 0.01))
                join.cancel()
            await join

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        send = replica.near.send

        def noting(kind: int, flags: int, number: int, meta: Any, body: bytes) -> None:
            if kind == frames.DATA and flags & frames.END:
                ends.append(number)
            send(kind, flags, number, meta, body)

        replica.near.send = noting  # type: ignore[method-assign]
        rounds = 0
        while len(replica.opened) < 50:  # some are cut off before they come to the replica
            rounds += 1
            await asyncio.gather(*(cut_off(stub, replica.address, 0.1 * rounds) for _ in range(20)))
        await until(lambda: replica.near.exchanges == 0)
        assert ends == []
        assert (await stub.Join(iter([word("all")]))).text == "all"
        assert len(ends) == 1

    serve(Slow, program, generated)


def test_the_text_of_a_status_is_cut_where_clients_would_refuse_it(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any, context: Any) -> Any:
            context.abort(grpc.StatusCode.ABORTED, "x" * 100_000)

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        code, text = await end_of(stub.Greet(word("x")))
        assert (code, text) == (grpc.StatusCode.ABORTED, "x" * 2000 + "...")

    serve(Greeter, program, generated)


def test_a_client_that_retries_is_told_when_and_does(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            return request

    policy = (
        '{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.01s", "maxBackoff":'
        ' "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}'
    )

    def channel(address: str) -> Any:
        return grpc.aio.insecure_channel(address, options=[("grpc.service_config", policy)])

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        replica.failure = BackPressureError("too many")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Greet(word("x"), metadata=METADATA)
        trailing = dict(caught.value.trailing_metadata())
        assert trailing == {"request_id": "id-7", "grpc-retry-pushback-ms": "1000"}
        replica.failure, replica.fails = None, lambda: DeploymentUnavailableError("a replica was lost")
        assert (await stub.Greet(word("x"))).text == "x"
        await until(lambda: len(replica.ended) == 3)
        assert [each.code.name for each in replica.ended[:2]] == ["RESOURCE_EXHAUSTED", "UNAVAILABLE"]

    serve(Greeter, program, generated, channel=channel)


def test_a_call_whose_deployment_ends_before_it_has_begun_goes_to_another_of_the_endpoint(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            return request

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        def deleted() -> Exception:
            replica.endpoints, replica.failure = (Endpoint("app", "", (Target("next#Greeter"),)),), None
            return NotServingError("there is no deployment app#Greeter")

        replica.fails = deleted
        assert (await stub.Greet(word("x"))).text == "x"
        await until(lambda: [each.target for each in replica.ended] == ["next#Greeter"])
        replica.failure = NotServingError("there is no deployment next#Greeter")
        code, text = await end_of(stub.Greet(word("x"), metadata=METADATA))
        assert (code, text) == (grpc.StatusCode.NOT_FOUND, "there is no deployment next#Greeter (request id-7)")

    serve(Greeter, program, generated)


def test_calls_that_may_be_repeated_are_by_their_definition(generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        for method in (stub.Greet, stub.Look):
            replica.failure = DeploymentUnavailableError("away")
            await end_of(method(word("x")))
        assert replica.repeatable == [False, True]

    serve(Slow, program, generated)


def test_shadows_get_copies_of_calls_with_one_message_each_way(generated: Any) -> None:
    class Greeter:
        async def Greet(self, request: Any) -> Any:
            return request

        async def Spell(self, request: Any) -> AsyncIterator[Any]:
            yield request

        async def Join(self, requests: Any) -> Any:
            return word("".join([request.text async for request in requests]))

        async def Echo(self, requests: Any) -> AsyncIterator[Any]:
            async for request in requests:
                yield request

    endpoint = Endpoint("app", "", (Target("app#Greeter"),), shadows=(Target("next#Greeter"),))

    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        await stub.Greet(word("x"), metadata=METADATA, timeout=600)
        await stub.Greet(word("x" * 300_000))
        await stub.Join(iter([word("x")]))
        for call in (stub.Spell(word("x")), stub.Echo(iter([word("x")]))):
            assert [each.text async for each in call] == ["x"]
        ((key, meta, body, timeout),) = replica.copies
        assert (key, meta["id"], body) == ("next#Greeter", "id-7", word("x").SerializeToString())
        assert timeout is not None and 400 < timeout <= 601.1  # gRPC says the next whole second

    serve(Greeter, program, generated, endpoints=(endpoint,))
