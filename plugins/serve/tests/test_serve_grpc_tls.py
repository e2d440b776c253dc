"""gRPC over TLS, with real certificates; health and reflection over it as well."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from kernel_serve.errors import DeploymentError, ServeError
from kernel_serve.proxy.tls import grpc_credentials, tls_context
from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_serve.testing.grpc_world import SECONDS, OneReplica, serve_grpc

ADDER = "greeter_pb2_grpc:add_GreeterServicer_to_server"


class Greeter:
    async def Greet(self, request: Any) -> Any:
        return request


def paths(certificates: Path, certificate: str = "server.pem", key: str | None = "server.key") -> dict[str, Any]:
    """Return the options for these certificates."""
    return {
        "ssl_certfile": str(certificates / certificate),
        "ssl_keyfile": None if key is None else str(certificates / key),
    }


def serve(program: Any, generated: Any, certificates: Path, client: str = "", **tls: Any) -> None:
    """Run an async test with a stub over TLS; `client` is whose certificate the client shows."""
    options = GRPCOptions(port=0, grpc_servicer_functions=(ADDER,), **tls)
    shown = (
        ((certificates / f"{client}.key").read_bytes(), (certificates / f"{client}.pem").read_bytes()) if client else ()
    )
    trusted = grpc.ssl_channel_credentials((certificates / "server.pem").read_bytes(), *shown)
    stub = generated[1].GreeterStub
    serve_grpc(Greeter, program, stub, options, channel=lambda address: grpc.aio.secure_channel(address, trusted))


async def answers(stub: Any, replica: OneReplica, channel: Any) -> None:
    import greeter_pb2

    assert (await stub.Greet(greeter_pb2.Word(text="secret"), timeout=SECONDS)).text == "secret"


async def is_refused(stub: Any, replica: OneReplica, channel: Any) -> None:
    import greeter_pb2

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Greet(greeter_pb2.Word(text="secret"), timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE and replica.opened == []


@pytest.mark.parametrize(
    ("certificate", "key", "password"),
    [
        ("server.pem", "server.key", None),
        ("server-both.pem", None, None),
        ("server.pem", "server-locked.key", "open sesame"),
        ("server-both-locked.pem", None, "open sesame"),
        ("server.pem", "server.key", "not needed"),
    ],
)
def test_calls_over_tls(
    certificates: Path, generated: Any, certificate: str, key: str | None, password: str | None
) -> None:
    serve(answers, generated, certificates, **paths(certificates, certificate, key), ssl_keyfile_password=password)


def test_who_does_not_speak_tls_or_trusts_another_is_refused(certificates: Path, generated: Any) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        await answers(stub, replica, channel)
        replica.opened.clear()
        other = grpc.ssl_channel_credentials((certificates / "client.pem").read_bytes())
        for made in (grpc.aio.insecure_channel(replica.address), grpc.aio.secure_channel(replica.address, other)):
            async with made:
                await is_refused(generated[1].GreeterStub(made), replica, made)

    serve(program, generated, certificates, **paths(certificates))


def test_only_clients_with_a_certificate_are_taken_if_it_is_wanted_so(certificates: Path, generated: Any) -> None:
    wanted = {**paths(certificates), "ssl_ca_certs": str(certificates / "client.pem")}
    serve(answers, generated, certificates, client="client", **wanted)
    for client in ("", "server"):
        serve(is_refused, generated, certificates, client=client, **wanted)


@pytest.mark.parametrize("tls", [False, True])
def test_health_and_reflection(certificates: Path, generated: Any, tls: bool) -> None:
    async def program(stub: Any, replica: OneReplica, channel: Any) -> None:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "serve.tests.Greeter"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
        listed = [each async for each in call]
        names = {service.name for service in listed[0].list_services_response.service}
        assert {"serve.tests.Greeter", "grpc.health.v1.Health"} <= names

    if tls:
        serve(program, generated, certificates, **paths(certificates))
    else:
        options = GRPCOptions(port=0, grpc_servicer_functions=(ADDER,))
        serve_grpc(Greeter, program, generated[1].GreeterStub, options)


def test_files_that_can_not_be_used_are_named_as_they_are_for_http(certificates: Path) -> None:
    files = {"ssl_certfile": "server.pem", "ssl_keyfile": "client.key"}
    wrong: tuple[dict[str, str], ...] = (
        {"ssl_certfile": "no.pem", "ssl_keyfile": "server.key"},
        files,
        {"ssl_certfile": "nonsense.pem"},
        {"ssl_certfile": "server.pem", "ssl_keyfile": "server-locked.key"},
        {"ssl_certfile": "server.pem", "ssl_keyfile": "server.key", "ssl_ca_certs": "nonsense.pem"},
    )
    for names in wrong:
        given: dict[str, Any] = {option: str(certificates / name) for option, name in names.items()}
        with pytest.raises(ServeError, match="^the proxy can't (read|use) ssl_") as http:
            tls_context(HTTPOptions(**given))
        with pytest.raises(ServeError) as grpc:
            grpc_credentials(GRPCOptions(**given))
        assert str(grpc.value) == str(http.value)


@pytest.mark.parametrize("option", ["ssl_keyfile", "ssl_ca_certs", "ssl_keyfile_password"])
def test_nothing_is_left_open_for_a_certificate_that_was_forgotten(option: str) -> None:
    with pytest.raises(DeploymentError, match=f"^{option} is given, but no ssl_certfile: there would be no TLS at all"):
        GRPCOptions(**{option: "x"})
    assert grpc_credentials(GRPCOptions()) is None


def test_an_encrypted_key_without_cryptography_says_what_to_install(
    certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    files = paths(certificates, "server.pem", "server-locked.key")
    with pytest.raises(ServeError, match=r"gRPC takes only keys that need none .* pip install cryptography"):
        grpc_credentials(GRPCOptions(**files, ssl_keyfile_password="open sesame"))
