"""Requests that end the process of whatever replica has them."""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import kernel
from kernel import serve

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


@serve.deployment(num_replicas=2)
class Mortal:
    """Writes down each time that it is ended."""

    def __init__(self, deaths: str) -> None:
        self.deaths = deaths

    def __call__(self, request: Any) -> str:
        if request.url.path.endswith("/die"):
            self.die()
        return "well"

    def die(self) -> None:
        with Path(self.deaths).open("a") as file:
            file.write("x")
        os._exit(3)


@serve.deployment
class Asking:
    """Has another deployment die for a request of its own."""

    def __init__(self, other: Any) -> None:
        self.other = other

    async def __call__(self, request: Any) -> None:
        await self.other.options(retry=True).die.remote()


@kernel.remote(num_cpus=0)
def call_from_elsewhere(handle: Any) -> str:
    try:
        handle.options(retry=True).die.remote().result(timeout_s=SECONDS)
    except serve.ReplicasDiedError as error:
        return str(error)
    return "nothing"


def ask(address: tuple[str, int], method: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection(*address, timeout=SECONDS)
    connection.request(method, path, headers={"x-request-id": "the-bad-one"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture
def deaths(tmp_path: Path) -> Path:
    found = tmp_path / "deaths"
    found.touch()
    return found


@pytest.mark.parametrize(
    ("method", "status", "lost"), [("GET", 500, 2), ("PUT", 503, 1), ("DELETE", 503, 1), ("POST", 503, 1)]
)
def test_a_deadly_request_ends_two_replicas_at_most(
    address: tuple[str, int], deaths: Path, method: str, status: int, lost: int
) -> None:
    serve.run(Mortal.bind(str(deaths)), name="mortal", route_prefix="/mortal")
    found, text = ask(address, method, "/mortal/die")
    assert (found, deaths.read_text()) == (status, "x" * lost), text
    assert "(request the-bad-one)" in text
    assert ("died while they had the request" in text) == (status == 500)
    assert ask(address, "GET", "/mortal") == (200, "well")
    assert deaths.read_text() == "x" * lost
    serve.delete("mortal")


def test_a_deadly_call_ends_two_replicas_at_most(address: tuple[str, int], deaths: Path) -> None:
    handle = serve.run(Mortal.bind(str(deaths)), name="mortal", route_prefix="/mortal")
    with pytest.raises(serve.DeploymentUnavailableError):
        handle.die.remote().result(timeout_s=SECONDS)
    assert deaths.read_text() == "x"
    with pytest.raises(serve.ReplicasDiedError, match="died while they had the request"):
        handle.options(retry=True).die.remote().result(timeout_s=SECONDS)
    assert deaths.read_text() == "xxx"
    assert "died while they had the request" in kernel.get(call_from_elsewhere.remote(handle), timeout=SECONDS)
    assert deaths.read_text() == "xxxxx"
    assert ask(address, "GET", "/mortal") == (200, "well")
    serve.delete("mortal")


def test_who_has_made_a_deadly_call_answers_500_and_why(address: tuple[str, int], deaths: Path) -> None:
    serve.run(Asking.bind(Mortal.bind(str(deaths))), name="asking", route_prefix="/asking")
    status, text = ask(address, "GET", "/asking")
    assert status == 500 and "#Mortal died while they had the request" in text
    assert deaths.read_text() == "xx"
    serve.delete("asking")
