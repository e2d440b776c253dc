"""The answers of handlers of all shapes, and what the log says where they can't answer."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import httpx
import pytest
from kernel_serve.api.controller_calls import ask
from kernel_serve.errors import BackPressureError, DeploymentUnavailableError, RequestTimeoutError

from kernel import serve
from kernel.testing.faults import wait_until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
SECONDS = 120.0


@pytest.fixture(scope="module")
def client(address: tuple[str, int]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url="http://{}:{}".format(*address), timeout=SECONDS) as client:
        yield client


@pytest.fixture
def get(client: httpx.Client, tmp_path: Path) -> Iterator[Callable[..., tuple[httpx.Response, Callable[[], str]]]]:
    """Runs a function or class and asks it once: its answer, and what reads the replica's log."""

    def log() -> str:
        return "".join(each.read_text() for each in tmp_path.iterdir())

    def ask(target: Any) -> tuple[httpx.Response, Callable[[], str]]:
        deployment = serve.deployment(name="Asked", logging_config={"logs_dir": str(tmp_path)})(target)
        serve.run(deployment.bind(), name="asked", route_prefix="/asked")
        return client.get("/asked"), log

    yield ask
    serve.delete("asked")


def no_argument() -> str:
    return "function"


async def no_argument_async() -> str:
    return "coroutine"


class NoArgument:
    def __call__(self) -> str:
        return "method"


class NoArgumentStream:
    async def __call__(self) -> Any:
        yield "str"
        yield "eam"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (no_argument, "function"), (no_argument_async, "coroutine"), (NoArgument, "method"),
        (NoArgumentStream, "stream"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_a_handler_without_a_parameter_is_called_without_the_request(get: Any, target: Any, text: str) -> None:
    answer, _ = get(target)
    assert (answer.status_code, answer.text) == (200, text)


def test_a_class_without_call_says_what_to_define_and_serves_handles(get: Any, client: httpx.Client) -> None:
    class Methods:
        def double(self, number: int) -> int:
            return number * 2

    answer, log = get(Methods)
    assert answer.status_code == 404
    assert answer.text == (
        "deployment Asked takes no HTTP requests: define __call__(self, request) in its class, or put an application "
        "in front with @serve.ingress(app); route_prefix=None keeps HTTP away from it"
    )
    assert client.get("/asked/again").status_code == 404
    assert serve.get_app_handle("asked").double.remote(4).result(SECONDS) == 8
    assert log().count("takes no HTTP requests") == 1 and "Traceback" not in log()


class Raising:
    async def __call__(self, request: Any) -> None:
        raise KeyError("async line")


def raising(request: Any) -> None:
    raise KeyError("plain line")


@pytest.mark.parametrize(("target", "name"), [(Raising, "__call__"), (raising, "raising")])
def test_a_traceback_in_the_log_begins_with_the_user_s_line(get: Any, target: Any, name: str) -> None:
    answer, log = get(target)
    assert answer.status_code == 500
    wait_until(lambda: "KeyError: '" in log(), SECONDS, "the traceback")
    lines = log()[log().index("Traceback") :].splitlines()
    assert __file__ in lines[1] and lines[1].endswith(f"in {name}"), lines
    assert "raise KeyError" in lines[2] and [each[:8] for each in lines].count("KeyError") == 1, lines


@pytest.mark.parametrize(
    ("error", "status", "after"),
    [(BackPressureError, 503, "1"), (DeploymentUnavailableError, 503, "2"), (RequestTimeoutError, 408, None)],
)
def test_what_a_call_of_the_handler_failed_for_is_passed_on(get: Any, error: Any, status: int, after: Any) -> None:
    def calls(request: Any) -> None:
        raise error("the other one said so")

    answer, _ = get(calls)
    assert (answer.status_code, answer.headers.get("retry-after")) == (status, after)
    assert answer.text == f"the other one said so (request {answer.headers['x-request-id']})"


class NotFinite:
    async def __call__(self) -> Any:
        return {"scores": [0.5, {"loss": math.nan}]}


def test_nan_in_a_result_is_named_in_the_log(get: Any) -> None:
    answer, log = get(NotFinite)
    assert answer.status_code == 500 and "Internal Server Error (request " in answer.text
    wait_until(lambda: "DeploymentError" in log(), SECONDS, "the error")
    assert (
        "deployment NotFinite returned a dict to an HTTP request, which can't be sent: the result['scores'][1]['loss'] "
        "is nan, for which JSON has no number; return text"
    ) in log()


@pytest.mark.parametrize("value", ["text", {"a": 1}, [1, 2], b"bytes"])
def test_only_generators_stream(address: tuple[str, int], value: Any) -> None:
    class Returning:
        def value(self) -> Any:
            return value

        def iterator(self) -> Any:
            return iter([1, 2])

    handle = serve.run(serve.deployment(Returning).bind(), name="returning", route_prefix=None).options(stream=True)
    with pytest.raises(
        TypeError,
        match=rf"Returning.value\(\) was called with stream=True, but returned a {type(value).__name__}: have it yield "
        "items",
    ):
        list(handle.value.remote())
    assert list(handle.iterator.remote()) == [1, 2]


def test_a_deployment_without_replicas_answers_503_at_once(address: tuple[str, int], client: httpx.Client) -> None:
    paused = serve.deployment(num_replicas=0, name="Paused")(NoArgument)
    handle = serve.run(paused.bind(), name="paused", route_prefix="/paused")
    why = "nothing can answer the request: paused#Paused has num_replicas=0: deploy it with more"
    answer = client.get("/paused")
    assert answer.status_code == 503 and answer.text.startswith(f"{why} (request ") and "retry-after" in answer.headers
    with pytest.raises(serve.DeploymentUnavailableError, match="has num_replicas=0"):
        handle.remote().result(SECONDS)
    assert "num_replicas=0" in serve.status().applications["paused"].message
    serve.run(paused.options(num_replicas=1).bind(), name="paused", route_prefix="/paused")
    assert (client.get("/paused").text, handle.remote().result(SECONDS)) == ("method", "method")


def test_deployments_log_as_start_says_unless_they_say_otherwise(address: tuple[str, int], tmp_path: Path) -> None:
    def settings(name: str) -> dict[str, Any]:
        return dict(ask("specification", name).deployments[0].settings.logging_config)

    serve.start(logging_config={"log_level": "DEBUG", "logs_dir": str(tmp_path)})
    one = serve.deployment(NoArgument).options(num_replicas=0)
    serve.run(one.bind(), name="silent", route_prefix=None)
    serve.run(one.bind(), name="told", route_prefix=None, logging_config=serve.LoggingConfig(log_level="ERROR"))
    loud = one.options(logging_config={"log_level": "WARNING"}).bind()
    serve.run_many([serve.RunTarget(loud, "own", None)])
    places = {"logs_dir": str(tmp_path)}
    assert settings("silent") == {"log_level": "DEBUG", **places}
    assert settings("told") == {"log_level": "ERROR", **places}
    assert settings("own") == {"log_level": "WARNING", **places}
    serve.start()
    serve.run(one.bind(), name="silent", route_prefix=None)
    assert settings("silent")["log_level"] == "DEBUG"
    serve.start(logging_config={})
    serve.run(one.bind(), name="silent", route_prefix=None)
    assert settings("silent") == {}
