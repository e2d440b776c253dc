"""Fixtures of serve's tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_serve.testing.certificates import write_certificates

import kernel
from kernel import serve

PATIENT = {"header_timeout_s": 600.0, "stall_timeout_s": 600.0, "keep_alive_timeout_s": 600.0}
"""Of a proxy that waits longer for its clients than tests wait for it: what ends has another reason to."""


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """Serve in a session of its own for all tests of a module; where its proxy listens."""
    kernel.shutdown()
    with kernel.init(num_cpus=16, log_to_driver=False):
        serve.start(http_options={"port": 0, "access_log": False, **PATIENT})
        host, _, port = next(iter(serve.status()["proxies"].values()))["address"].rpartition(":")
        yield host, int(port)
        serve.shutdown()


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the generated code of the service for tests, importable: messages, and stubs."""
    from grpc_tools import protoc

    where, source = tmp_path_factory.mktemp("generated"), Path(__file__).parent / "serve_rpc"
    arguments = ["protoc", f"-I{source}", f"--python_out={where}", f"--grpc_python_out={where}", "greeter.proto"]
    assert protoc.main(arguments) == 0
    sys.path.insert(0, str(where))
    yield importlib.import_module("greeter_pb2"), importlib.import_module("greeter_pb2_grpc")
    sys.path.remove(str(where))


@pytest.fixture(scope="session")
def certificate(certificates: Path) -> tuple[str, str]:
    """Paths of a certificate for 127.0.0.1, which is its own authority, and of its key."""
    return str(certificates / "server.pem"), str(certificates / "server.key")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with certificates for 127.0.0.1 that sign themselves: of a server, and of a client."""
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder
