"""Endpoints, backends, and the traffic between them: the first generation's API, on a running Serve."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from kernel_compat_ray.facade import make_module

import kernel
from kernel.serve.errors import DeployFailedError, DeploymentError, NotServingError
from kernel.testing.faults import wait_until

SECONDS = 120.0
serve = make_module("ray.serve")
"""What programs import; the rest of the session's process does not see it."""


def simple(request: Any) -> str:
    return f"hello {request.args.get('name', 'serve!')}"


@pytest.fixture(scope="module")
def session() -> Iterator[str]:
    """Serve, at some port; its address."""
    kernel.shutdown()
    serve.init(http_port=0, session_options={"num_cpus": 4, "log_to_driver": False})
    (proxy,) = serve.status().proxies.values()
    yield f"http://{proxy.address}"
    serve.shutdown()
    kernel.shutdown()


@pytest.fixture
def url(session: str) -> Iterator[str]:
    """Serve without endpoints and backends."""
    yield session
    for endpoint in serve.list_endpoints():
        serve.delete_endpoint(endpoint)
    for backend in serve.list_backends():
        serve.delete_backend(backend)


def answer_of(name: str) -> Any:
    def handler(request: Any) -> str:
        return name

    return handler


def at_once(count: int, ask: Any) -> list[Any]:
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda _: ask(), range(count)))


class TestServing:
    def test_a_function_answers_with_text(self, url: str) -> None:
        def echo(request: Any) -> str:
            return "hello " + request.args.get("name", "serve!")

        serve.create_endpoint("hello", "/hello")
        serve.create_backend("hello", echo)
        serve.set_traffic("hello", {"hello": 1.0})
        assert requests.get(f"{url}/hello").text == "hello serve!"
        assert requests.get(f"{url}/hello/below", {"name": "you & me"}).text == "hello you & me"

    def test_a_class_keeps_its_state_and_answers_with_json(self, url: str) -> None:
        class Counting:
            def __init__(self, first: int, step: int) -> None:
                self.count, self.step = first, step

            def __call__(self, request: Any) -> dict[str, int]:
                seen = self.count
                time.sleep(0.001)  # nobody else may count meanwhile
                self.count = seen + self.step
                return {"current_counter": seen}

        serve.create_backend("counter", Counting, 7, 2)
        serve.create_endpoint("counter", backend="counter", route="/counter", methods=["GET", "POST"])
        assert requests.get(f"{url}/counter").json() == {"current_counter": 7}
        seen = at_once(20, lambda: requests.post(f"{url}/counter").json()["current_counter"])
        assert sorted(seen) == list(range(9, 49, 2))

    def test_the_request_is_like_flasks(self, url: str) -> None:
        def mirror(request: Any) -> dict[str, Any]:
            upload = request.files.get("picture")
            return {
                "method": request.method,
                "path": request.path,
                "args": request.args.getlist("a"),
                "form": request.form.to_dict(),
                "json": request.get_json(silent=True),
                "data": request.get_data(as_text=True)[:20],
                "header": request.headers.get("X-Mine"),
                "file": [upload.filename, upload.read().hex()] if upload else None,
                "cookie": request.cookies.get("c"),
            }

        serve.create_backend("mirror", mirror)
        serve.create_endpoint("mirror", "/mirror", ["GET", "POST", "PUT"])
        serve.set_traffic("mirror", {"mirror": 1.0})

        def ask(method: str, **more: Any) -> Any:
            return requests.request(method, f"{url}/mirror/x%20y?a=1&a=%C3%A9", **more).json()

        plain = ask("GET", headers={"x-mine": "m"}, cookies={"c": "v"})
        assert plain["method"] == "GET" and plain["path"] == "/mirror/x y" and plain["args"] == ["1", "é"]
        assert (plain["header"], plain["cookie"], plain["form"], plain["file"]) == ("m", "v", {}, None)
        assert ask("POST", data={"k": "ü"})["form"] == {"k": "ü"}
        assert ask("PUT", json={"k": [1]})["json"] == {"k": [1]}
        assert ask("POST", data=b"bytes")["data"] == "bytes"
        sent = ask("POST", files={"picture": ("p.png", b"\x00\r\n\xff")}, data={"k": "v"})
        assert sent["file"] == ["p.png", "000d0aff"] and sent["form"] == {"k": "v"}

    def test_a_coroutine_answers_many_at_a_time(self, url: str) -> None:
        class Meeting:
            def __init__(self) -> None:
                self.here = 0

            async def __call__(self, request: Any) -> str:
                import asyncio

                self.here += 1
                while self.here < 4:
                    await asyncio.sleep(0.001)
                return "all here"

        serve.create_backend("meeting", Meeting)
        serve.create_endpoint("meeting", "/meeting", backend="meeting")
        assert at_once(4, lambda: requests.get(f"{url}/meeting", timeout=SECONDS).text) == ["all here"] * 4

    def test_responses_of_werkzeug_are_sent_as_they_are(self, url: str) -> None:
        def teapot(request: Any) -> Any:
            from werkzeug.wrappers import Response

            return Response("short and stout", status=418, headers={"X-Spout": "1"})

        serve.create_backend("teapot", teapot)
        serve.create_endpoint("teapot", "/teapot", backend="teapot")
        found = requests.get(f"{url}/teapot")
        assert (found.status_code, found.text, found.headers["x-spout"]) == (418, "short and stout", "1")

    def test_other_methods_are_refused(self, url: str) -> None:
        serve.create_backend("b", answer_of("b"))
        serve.create_endpoint("e", "/e", backend="b")
        found = requests.post(f"{url}/e")
        assert found.status_code == 405 and found.headers["allow"] == "GET, HEAD"
        assert requests.head(f"{url}/e").status_code == 200

    def test_the_table_of_routes_is_text(self, url: str) -> None:
        serve.create_endpoint("one", "/one")
        serve.create_endpoint("two", "/one/two")
        serve.create_endpoint("by handle alone")
        assert requests.get(f"{url}/-/routes", timeout=SECONDS).json() == {"/one": "one", "/one/two": "two"}


class TestLives:
    def test_an_endpoint_lives_without_a_backend_and_the_reverse(self, url: str) -> None:
        serve.create_endpoint("e", "/e")
        found = requests.get(f"{url}/e")
        assert found.status_code == 503 and found.headers["retry-after"] == "1"
        assert found.text == "endpoint 'e' has nothing to answer yet: give it traffic with serve.set_traffic"
        serve.create_backend("b", answer_of("b"))
        serve.set_traffic("e", {"b": 1.0})
        serve.create_endpoint("other", "/other", backend="b")
        serve.delete_endpoint("e")
        assert requests.get(f"{url}/e").status_code == 404
        assert requests.get(f"{url}/other").text == "b"
        assert list(serve.list_backends()) == ["b"]

    def test_a_backend_in_use_is_not_deleted_and_then_its_tag_is_free(self, url: str) -> None:
        serve.create_backend("b", answer_of("first"))
        serve.create_endpoint("e", "/e", backend="b")
        message = (
            "backend 'b' can't be deleted: endpoint 'e' sends requests to it; give them to others with "
            "serve.set_traffic, or delete the endpoint, first"
        )
        with pytest.raises(DeploymentError) as raised:
            serve.delete_backend("b")
        assert str(raised.value) == message
        with pytest.raises(DeploymentError, match="can't be deleted"):
            serve.delete("b")
        assert requests.get(f"{url}/e").text == "first"
        serve.delete_endpoint("e")
        serve.delete_backend("b")
        serve.create_backend("b", answer_of("second"))
        serve.create_endpoint("e", "/e", backend="b")
        assert requests.get(f"{url}/e").text == "second"

    def test_a_name_is_taken_once(self, url: str) -> None:
        serve.create_endpoint("e", "/e")
        serve.create_backend("b", answer_of("b"))
        serve.create_endpoint("b", "/b", backend="b")
        for wrong, message in (
            (lambda: serve.create_endpoint("g", "/b"), "'g' can't have the route prefix '/b': the endpoint 'b' has it"),
            (lambda: serve.create_endpoint("e", "/other"), "there is an endpoint 'e' already"),
            (lambda: serve.create_endpoint("f", "/e"), "'f' can't have the route prefix '/e': the endpoint 'e' has it"),
            (lambda: serve.create_backend("b", simple), "there is a backend or an application 'b' already"),
            (lambda: serve.run(kernel.serve.deployment(simple).bind(), name="b"), "an application can't be named 'b'"),
            (lambda: serve.run(kernel.serve.deployment(simple).bind(), name="e"), "there is an endpoint of that name"),
        ):
            with pytest.raises(DeploymentError, match=message):
                wrong()

    def test_one_that_fails_leaves_its_tag_free(self, url: str) -> None:
        class Broken:
            def __init__(self) -> None:
                raise RuntimeError("no weights")

            def __call__(self, request: Any) -> str:
                return ""

        with pytest.raises(DeployFailedError, match=r"(?s)'b' can't be made to run: .*RuntimeError: no weights"):
            serve.create_backend("b", Broken)
        serve.create_backend("b", answer_of("b"))

    def test_everything_outlives_the_controller(self, url: str) -> None:
        serve.create_backend("b", answer_of("b"), config={"num_replicas": 2})
        serve.create_endpoint("b", "/b", backend="b")
        serve.create_endpoint("none yet", "/none")
        before = (serve.list_endpoints(), serve.list_backends())
        pid = serve.status().controller_pid
        os.kill(pid, signal.SIGKILL)
        assert requests.get(f"{url}/b").text == "b"
        wait_until(lambda: serve.status().controller_pid != pid, SECONDS, "another life of the controller")
        assert (serve.list_endpoints(), serve.list_backends()) == before
        serve.set_traffic("none yet", {"b": 1.0})
        assert requests.get(f"{url}/none").text == "b"


class TestTraffic:
    def test_it_is_split_exactly(self, url: str) -> None:
        for name in ("a", "b"):
            serve.create_backend(name, answer_of(name))
        serve.create_endpoint("split", "/split", methods=["GET", "POST"])
        serve.set_traffic("split", {"a": 0.7, "b": 0.3})
        with requests.Session() as client:
            seen = Counter(client.get(f"{url}/split").text for _ in range(100))
        assert seen == {"a": 70, "b": 30}
        assert serve.list_endpoints()["split"] == {
            "route": "/split",
            "methods": ["GET", "POST"],
            "traffic": {"a": 0.7, "b": 0.3},
            "shadows": {},
        }
        serve.set_traffic("split", {"b": 1.0})
        assert {requests.get(f"{url}/split").text for _ in range(5)} == {"b"}

    def test_what_can_not_be_says_so(self, url: str) -> None:
        serve.create_endpoint("simple_endpoint", "/simple")
        serve.create_backend("simple_backend", simple)
        swapped = (
            "there is no endpoint 'simple_backend', but a backend: the endpoint comes first, as in "
            "serve.set_traffic('simple_endpoint', {'simple_backend': 1.0})"
        )
        for arguments, error, message in (
            (("simple_backend", {"simple_endpoint": 1.0}), NotServingError, swapped),
            (
                ("simple_endpont", {"simple_backend": 1.0}),
                NotServingError,
                "there is no endpoint 'simple_endpont'; did you mean 'simple_endpoint'?",
            ),
            (
                ("simple_endpoint", {"simple_back": 1.0}),
                NotServingError,
                "the traffic of 'simple_endpoint' names 'simple_back', but there is no backend of that name; "
                "did you mean 'simple_backend'?",
            ),
            (
                ("simple_endpoint", {"simple_backend": 0.5}),
                DeploymentError,
                "the weights of endpoint 'simple_endpoint' must sum to 1, but 0.5 sums to 0.5",
            ),
            (
                ("simple_endpoint", {"simple_backend": "all"}),
                DeploymentError,
                "the traffic of 'simple_endpoint' gives 'simple_backend' the weight 'all': weights are numbers from 0 "
                "on",
            ),
        ):
            with pytest.raises(error) as raised:
                serve.set_traffic(*arguments)
            assert str(raised.value) == message


class TestHandles:
    def test_named_arguments_come_as_parameters_or_in_args(self, url: str) -> None:
        def add(request: Any, *, a: int = 0, b: int = 0) -> list[Any]:
            if serve.context.web:
                a, b = int(request.args["a"]), int(request.args["b"])
            return [a + b, serve.context.web]

        def named(request: Any) -> list[Any]:
            return [dict(request.args), request.data, request.method]

        serve.create_backend("add", add)
        serve.create_backend("named", named)
        serve.create_endpoint("add", "/add", backend="add")
        serve.create_endpoint("named", backend="named")
        assert serve.get_handle("add").remote(a=2, b=3).result(SECONDS) == [5, False]
        assert requests.get(f"{url}/add?a=2&b=4").json() == [6, True]
        assert serve.get_handle("named").remote("data", x=1).result(SECONDS) == [{"x": 1}, "data", "CALL"]

    def test_calls_are_split_as_requests_are(self, url: str) -> None:
        for name in ("a", "b"):
            serve.create_backend(name, answer_of(name))
        serve.create_endpoint("split")
        serve.set_traffic("split", {"a": 0.75, "b": 0.25})
        handle = serve.get_handle("split")
        assert Counter(each.result(SECONDS) for each in [handle.remote() for _ in range(40)]) == {"a": 30, "b": 10}

    def test_other_methods_of_a_class_can_be_called(self, url: str) -> None:
        class Two:
            def __call__(self, request: Any) -> str:
                return "call"

            def other(self, x: int) -> int:
                return x + 1

        serve.create_backend("two", Two)
        serve.create_endpoint("two", backend="two")
        handle = serve.get_handle("two")
        assert handle.other.remote(1).result(SECONDS) == 2
        assert handle.options(method_name="other").remote(x=2).result(SECONDS) == 3

    def test_a_backend_can_call_another(self, url: str) -> None:
        def inner(request: Any, *, x: int) -> int:
            return x * 2

        class Outer:
            def __init__(self) -> None:
                self.inner = serve.get_handle("inner")

            async def __call__(self, request: Any) -> str:
                return str(await self.inner.remote(x=int(request.args["x"])))

        serve.create_backend("inner", inner)
        serve.create_endpoint("inner", backend="inner")
        serve.create_backend("outer", Outer)
        serve.create_endpoint("outer", "/outer", backend="outer")
        assert requests.get(f"{url}/outer?x=21").text == "42"

    def test_there_must_be_an_endpoint(self, url: str) -> None:
        with pytest.raises(NotServingError, match="there is no endpoint 'none'"):
            serve.get_handle("none")
        with pytest.raises(NotServingError, match="there is no endpoint 'none'"):
            serve.get_handle("none", missing_ok=True).remote().result(SECONDS)


class TestBatching:
    def test_a_handler_gets_lists_and_each_caller_its_own_result(self, url: str) -> None:
        class Batching:
            def __init__(self) -> None:
                self.count = 0

            @serve.accept_batch
            def __call__(self, requests: list[Any]) -> list[Any]:
                self.count += 1
                assert len(requests) == serve.context.batch_size
                return [[self.count, serve.context.batch_size, int(each.args["n"])] for each in requests]

        config = {"max_batch_size": 5, "batch_wait_timeout": 10 * SECONDS}
        serve.create_backend("batching", Batching, config=config)
        serve.create_endpoint("batching", "/batching", backend="batching")
        with ThreadPoolExecutor(10) as threads:
            found = list(threads.map(lambda n: requests.get(f"{url}/batching?n={n}").json(), range(10)))
        assert [n for _, _, n in found] == list(range(10))
        assert Counter((count, size) for count, size, _ in found) == {(1, 5): 5, (2, 5): 5}
        responses = [serve.get_handle("batching").remote(n=n) for n in range(5)]
        assert [each.result(SECONDS) for each in responses] == [[3, 5, n] for n in range(5)]

    def test_named_arguments_come_as_lists(self, url: str) -> None:
        @serve.accept_batch
        def add(request: Any, *, x: Any = None) -> list[Any]:
            return [each + serve.context.batch_size for each in x]

        serve.create_backend("add", add, config={"max_batch_size": 2, "batch_wait_timeout": 10 * SECONDS})
        serve.create_endpoint("add", backend="add")
        handle = serve.get_handle("add")
        assert [each.result(SECONDS) for each in [handle.remote(x=10), handle.remote(x=20)]] == [12, 22]

    def test_too_few_results_are_an_error_that_says_so(self, url: str) -> None:
        @serve.accept_batch
        def short(requests: list[Any]) -> list[Any]:
            return []

        serve.create_backend("short", short, config={"max_batch_size": 2})
        serve.create_endpoint("short", backend="short")
        with pytest.raises(DeploymentError, match=r"short is batched and got 1 requests: it must return a list of 1"):
            serve.get_handle("short").remote().result(SECONDS)

    def test_the_size_needs_a_handler_that_takes_lists(self, url: str) -> None:
        with pytest.raises(DeploymentError, match="has max_batch_size=5, but its handler takes one"):
            serve.create_backend("b", simple, config={"max_batch_size": 5})


class TestConfig:
    def test_replicas_can_be_more_and_fewer(self, url: str) -> None:
        def process(request: Any) -> str:
            import os

            return str(os.getpid())

        serve.create_backend("many", process, config=serve.BackendConfig(num_replicas=3))
        serve.create_endpoint("many", "/many", backend="many")
        seen: set[str] = set()
        deadline = time.monotonic() + SECONDS
        while len(seen) < 3 and time.monotonic() < deadline:
            seen |= set(at_once(6, lambda: requests.get(f"{url}/many").text))
        assert len(seen) == 3
        serve.update_backend_config("many", {"num_replicas": 1})
        assert serve.get_backend_config("many") == serve.BackendConfig(num_replicas=1)
        stat = serve.stat()["backends"]["many"]
        assert (stat["status"], stat["replicas"]["RUNNING"]) == ("RUNNING", 1)
        assert requests.get(f"{url}/many").text in seen

    def test_the_batch_size_changes_while_it_runs(self, url: str) -> None:
        class Sizes:
            @serve.accept_batch
            def __call__(self, requests: list[Any]) -> list[int]:
                return [serve.context.batch_size] * serve.context.batch_size

        serve.create_backend("sizes", Sizes, config={"max_batch_size": 2, "batch_wait_timeout": 10 * SECONDS})
        serve.create_endpoint("sizes", backend="sizes")
        handle = serve.get_handle("sizes")
        before = serve.status().applications["sizes"].deployments["sizes"].replicas
        assert [each.result(SECONDS) for each in [handle.remote() for _ in range(4)]] == [2] * 4
        serve.update_backend_config("sizes", {"max_batch_size": 4})
        assert [each.result(SECONDS) for each in [handle.remote() for _ in range(4)]] == [4] * 4
        after = serve.status().applications["sizes"].deployments["sizes"].replicas
        assert [each.replica_id for each in before] == [each.replica_id for each in after]

    def test_what_can_not_be_says_so(self, url: str) -> None:
        serve.create_backend("known", simple)
        for wrong, message in (
            (lambda: serve.create_backend("b", simple, config={"num_replica": 2}), "did you mean 'num_replicas'?"),
            (lambda: serve.create_backend("b", simple, config=3), "is a BackendConfig or a dict, not a int"),
            (lambda: serve.create_backend("b", simple, 1), "is a function, which is called for each request"),
            (lambda: serve.create_backend("b", "simple"), "is to be a function or a class, not a str"),
            (lambda: serve.create_backend("b", dict), "class dict of backend 'b' has no method __call__"),
            (lambda: serve.create_backend("b", simple, num_replicas=2), "settings go into config="),
            (lambda: serve.create_endpoint("e", "route"), "a path that begins with '/', not 'route'"),
            (lambda: serve.create_endpoint("e", "/e", methods=[]), "methods of an endpoint are names"),
            (lambda: serve.BackendConfig(num_replicas=-1), "num_replicas of a backend is a whole number from 0 on"),
        ):
            with pytest.raises(DeploymentError) as raised:
                wrong()
            assert message in str(raised.value)
        for call in (serve.delete_backend, serve.get_backend_config):
            with pytest.raises(NotServingError, match="there is no backend 'knwn'; did you mean 'known'"):
                call("knwn")
