"""The REST API: its token, its answers, and its refusals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from kernel_serve.config.values import ServeConfig
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.rest.app import LARGEST_BODY, make_app

TOKEN = "0123456789abcdef"
APPLICATIONS = "/api/serve/applications/"


class Backend:
    """Remembers what it is asked for."""

    def __init__(self) -> None:
        self.data: dict[str, Any] | None = None
        self.runs = False
        self.error: Exception | None = None

    def status(self) -> dict[str, Any]:
        if not self.runs:
            raise NotServingError("Serve does not run")
        names = [each["name"] for each in (self.data or {})["applications"]]
        return {"applications": {name: {"status": "RUNNING"} for name in names}, "proxies": {}, "endpoints": []}

    def config(self) -> dict[str, Any] | None:
        return self.data

    def deploy(self, config: ServeConfig) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        self.data, self.runs = dict(config.data), True
        return [each.name for each in config.applications]

    def end(self) -> None:
        self.runs = False


def ask(
    backend: Backend, method: str, path: str, body: bytes = b"", shown: str | None = f"Bearer {TOKEN}", pieces: int = 1
) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    """Send a request and return the answer's status, value and headers."""
    headers = [] if shown is None else [(b"authorization", shown.encode())]
    sent: list[Any] = []
    size = max(1, -(-len(body) // pieces))
    parts = [body[begin : begin + size] for begin in range(0, len(body), size)] or [b""]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http",
        "query_string": b"", "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        "http_version": "1.1",
    }  # fmt: skip

    async def work() -> None:
        try:
            await make_app(backend, TOKEN)(scope, receive, send)
        except Exception:
            if not sent:  # Starlette raises again what it has answered
                raise

    asyncio.run(work())
    text = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(text), dict(sent[0]["headers"])


CONFIG = b"applications: [{name: shop, import_path: 'shop:app'}]"


@pytest.mark.parametrize("path", [APPLICATIONS, "/api/serve/applications"])
def test_a_configuration_is_deployed_shown_and_ended(path: str) -> None:
    backend = Backend()
    assert ask(backend, "GET", path)[1] == {
        "running": False, "applications": {}, "proxies": {}, "endpoints": [], "config": {},
    }  # fmt: skip
    assert ask(backend, "PUT", path, CONFIG)[:2] == (200, {"applications": ["shop"]})
    _, shown, _ = ask(backend, "GET", path)
    application = {"name": "shop", "route_prefix": "/", "import_path": "shop:app"}
    assert shown["applications"]["shop"] == {"status": "RUNNING", "deployed_app_config": application}
    assert shown["config"] == {"applications": [application]} and shown["running"]
    assert ask(backend, "GET", "/api/serve/status")[1]["applications"] == {"shop": {"status": "RUNNING"}}
    assert ask(backend, "DELETE", path)[:2] == (200, {})
    assert not backend.runs


def test_json_is_taken_too() -> None:
    backend = Backend()
    body = json.dumps({"applications": [{"name": "shop", "import_path": "shop:app"}]}).encode()
    assert ask(backend, "PUT", APPLICATIONS, body, pieces=7)[:2] == (200, {"applications": ["shop"]})


@pytest.mark.parametrize("shown", [None, "", "Bearer", "Bearer wrong", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN} "])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_nobody_gets_in_without_the_token(shown: str | None, method: str) -> None:
    backend = Backend()
    backend.data, backend.runs = {"applications": []}, True
    status, answer, headers = ask(backend, method, APPLICATIONS, CONFIG, shown=shown)
    assert status == 401 and headers[b"www-authenticate"] == b"Bearer"
    assert answer == {"error": "show the session's token: Authorization: Bearer TOKEN (`kernel token` has it)"}
    assert backend.runs and backend.data == {"applications": []}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"applications: [{name: a}]", "body:1: applications[0]: import_path is missing"),
        (b"a: [", "body:1: this is not YAML"),
        (b"\xff\xfe", "the body is not UTF-8"),
        (b"[1]", "body:1: expected a mapping of names to values, not a list"),
    ],
)
def test_a_bad_configuration_is_refused(body: bytes, message: str) -> None:
    backend = Backend()
    status, answer, _ = ask(backend, "PUT", APPLICATIONS, body)
    assert status == 400 and message in answer["error"] and not backend.runs


def test_what_can_not_be_deployed_is_said() -> None:
    backend = Backend()
    backend.error = DeploymentError("there is no module 'shop'")
    assert ask(backend, "PUT", APPLICATIONS, CONFIG)[:2] == (400, {"error": "there is no module 'shop'"})
    backend.error = ZeroDivisionError("division by zero")
    assert ask(backend, "PUT", APPLICATIONS, CONFIG)[:2] == (500, {"error": "ZeroDivisionError: division by zero"})


@pytest.mark.parametrize("pieces", [1, 50])
def test_a_body_has_a_limit(pieces: int) -> None:
    status, answer, _ = ask(Backend(), "PUT", APPLICATIONS, b" " * (LARGEST_BODY + 1), pieces=pieces)
    assert (status, answer) == (413, {"error": "the body is larger than 1,048,576 bytes"})


def test_what_is_not_there_is_said() -> None:
    status, answer, _ = ask(Backend(), "GET", "/api/serve/replicas")
    assert status == 404
    assert answer["error"] == (
        "nothing is at /api/serve/replicas: there are /api/serve/applications/ and /api/serve/status"
    )
    assert ask(Backend(), "POST", APPLICATIONS)[0] == 405
