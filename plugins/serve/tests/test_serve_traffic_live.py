"""Traffic between applications that run: exact shares, keys, copies, and a canary without a failed request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from kernel_serve.errors import DeploymentError, NotServingError

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

SECONDS = 120.0


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve with the applications `a` and `b`, which answer with their names, at their names."""
    kernel.shutdown()
    kernel.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"port": 0})
    run_version("a", "/a")
    run_version("b", "/b")
    (proxy,) = serve.status().proxies.values()
    yield f"http://{proxy.address}"
    serve.shutdown()
    kernel.shutdown()


@pytest.fixture(autouse=True)
def no_endpoints(url: str) -> Iterator[None]:
    """Endpoints that a test has set are gone after it."""
    yield
    for each in serve.status().endpoints:
        if each.name not in ("a", "b") or set(each.targets) != {f"{each.name}#Version"}:
            serve.delete_endpoint(each.name)


def run_version(name: str, route: str | None) -> Any:
    class Version:
        def __init__(self) -> None:
            self.seen: list[tuple[str, str]] = []

        async def __call__(self, request: Any) -> str:
            self.seen.append((request.headers.get("x-serve-shadow", ""), (await request.body()).decode()))
            return name

        def take_seen(self) -> list[tuple[str, str]]:
            seen, self.seen = self.seen, []
            return seen

    return serve.run(serve.deployment(Version).bind(), name=name, route_prefix=route)


def answers(url: str, count: int, **more: Any) -> Counter[str]:
    with requests.Session() as client:
        found = [client.get(url, **more) for _ in range(count)]
    assert {each.status_code for each in found} == {200}
    return Counter(each.text for each in found)


def test_shares_are_exact_in_every_stretch(url: str) -> None:
    serve.set_traffic("/split", {"a": 70, "b": 30})
    assert answers(f"{url}/split", 10) == {"a": 7, "b": 3}
    assert answers(f"{url}/split/below", 100) == {"a": 70, "b": 30}
    assert requests.get(f"{url}/-/routes").json() == {"/a": "a", "/b": "b", "/split": "/split"}


def test_an_application_gives_of_its_own_traffic_and_takes_it_back(url: str) -> None:
    serve.set_traffic("a", {"a": 0.5, "b#Version": 0.5})
    assert answers(f"{url}/a", 10) == {"a": 5, "b": 5}
    assert answers(f"{url}/b", 4) == {"b": 4}
    serve.delete_endpoint("/a")
    assert answers(f"{url}/a", 4) == {"a": 4}


def test_who_asks_for_another_path_is_told_some_routes(url: str) -> None:
    answer = requests.get(f"{url}/c")
    assert (answer.status_code, answer.text) == (404, "nothing is served at '/c': there are /a, /b (see /-/routes)")
    for number in range(5):
        serve.set_traffic(f"/more/{number}", {"a": 1})
    said = "nothing is served at '/c': there are /a, /b, /more/0, /more/1, /more/2 and 2 more (see /-/routes)"
    assert requests.get(f"{url}/c").text == said


def test_an_application_that_moves_takes_its_traffic_along(url: str) -> None:
    serve.set_traffic("a", {"a": 0.5, "b": 0.5})
    run_version("a", "/moved")
    assert answers(f"{url}/moved", 10) == {"a": 5, "b": 5}
    assert requests.get(f"{url}/a").status_code == 404
    assert serve.status().applications["a"].route_prefix == "/moved"
    serve.delete_endpoint("a")
    run_version("a", "/a")
    assert answers(f"{url}/a", 4) == {"a": 4}


def test_the_same_key_goes_the_same_way(url: str) -> None:
    serve.set_traffic("/sticky", {"a": 0.7, "b": 0.3}, sticky_by="header:user")
    ways = {}
    for user in range(100):
        (ways[user],) = answers(f"{url}/sticky", 2, headers={"User": f"user {user}"})
    assert 50 < sum(way == "a" for way in ways.values()) < 90
    serve.set_traffic("/sticky", {"a": 0.5, "b": 0.5})  # it stays sticky
    moved = [user for user in ways if answers(f"{url}/sticky", 1, headers={"User": f"user {user}"})[ways[user]] != 1]
    assert all(ways[user] == "a" for user in moved) and len(moved) < 50
    serve.set_traffic("/sticky", {"a": 0.5, "b": 0.5}, sticky_by="")
    assert answers(f"{url}/sticky", 10, headers={"User": "user 1"}) == {"a": 5, "b": 5}


def test_shadows_get_copies_and_nobody_their_answers(url: str) -> None:
    one, other = serve.get_app_handle("a"), serve.get_app_handle("b")
    one.take_seen.remote().result(SECONDS)
    other.take_seen.remote().result(SECONDS)
    serve.set_traffic("/shadowed", {"a": 1}, shadow={"b": 0.5})
    bodies = [f"body {number}" for number in range(10)]
    assert {requests.post(f"{url}/shadowed", data=body).text for body in bodies} == {"a"}
    assert one.take_seen.remote().result(SECONDS) == [("", body) for body in bodies]
    copies: list[tuple[str, str]] = []
    wait_until(lambda: copies.extend(other.take_seen.remote().result(SECONDS)) or len(copies) >= 5, SECONDS, "copies")
    assert len(copies) == 5 and set(copies) <= {("1", body) for body in bodies}
    serve.set_traffic("/shadowed", {"a": 1}, shadow={})
    assert serve.list_endpoints()["/shadowed"]["shadows"] == {}


def test_a_shadow_that_hangs_or_fails_costs_nothing(url: str) -> None:
    @serve.deployment(max_ongoing_requests=1)
    class Hanging:
        def __init__(self) -> None:
            self.count = 0

        async def __call__(self, request: Any) -> str:
            import asyncio

            self.count += 1
            if self.count == 1:
                raise RuntimeError("a bad version")
            await asyncio.Event().wait()
            return ""

    serve.run(Hanging.options(graceful_shutdown_timeout_s=0.1).bind(), name="hanging", route_prefix=None)
    serve.set_traffic("/shadowed", {"a": 1}, shadow={"hanging": 1})
    assert answers(f"{url}/shadowed", 300) == {"a": 300}
    serve.delete("hanging")
    assert answers(f"{url}/shadowed", 3) == {"a": 3}


class Load:
    """Clients that ask all the time, and count what they get."""

    def __init__(self, url: str, clients: int) -> None:
        self.url = url
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self._round = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]

    def _ask(self) -> None:
        with requests.Session() as client:
            while not self._stop.is_set():
                begun = self._round
                try:
                    found = client.get(self.url, timeout=SECONDS)
                    problem = "" if found.status_code == 200 else f"{found.status_code}: {found.text}"
                except requests.RequestException as error:
                    problem = repr(error)
                with self._lock:
                    if problem:
                        self.failures.append(problem)
                    elif begun == self._round:
                        self.answers[found.text] += 1

    def await_more(self, count: int) -> Counter[str]:
        """Wait for so many answers to requests that begin from now on; return them."""
        with self._lock:
            self._round += 1
            self.answers.clear()
        wait_until(lambda: self.failures or self.answers.total() >= count, SECONDS, f"{count} answers")
        with self._lock:
            return Counter(self.answers)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS)


def test_a_canary_takes_over_step_by_step_without_a_failed_request(url: str) -> None:
    run_version("v1", "/model")
    with Load(f"{url}/model", 4) as load:
        assert set(load.await_more(50)) == {"v1"}
        run_version("v2", None)
        for share in (0.05, 0.5, 1.0):
            serve.set_traffic("v1", {"v1": 1 - share, "v2": share})
            found = load.await_more(200)
            expected = share * found.total()
            assert abs(found["v2"] - expected) <= 10  # what was under way when counting began
        assert set(load.await_more(50)) == {"v2"}
        serve.set_traffic("/model", {"v2": 1.0})
        load.await_more(50)
    assert load.failures == []
    serve.delete_endpoint("/model")
    serve.delete("v1")
    serve.delete("v2")


def test_an_application_that_goes_takes_only_its_own_share(url: str) -> None:
    run_version("leaving", None)
    serve.set_traffic("/shared", {"a": 0.5, "leaving": 0.5})
    with Load(f"{url}/shared", 2) as load:
        load.await_more(20)
        serve.delete("leaving")
        load.await_more(20)
        assert set(load.await_more(20)) == {"a"}, load.failures
    assert load.failures == []


def test_what_can_not_be_says_so(url: str) -> None:
    run_version("inside", None)
    for arguments, named, error, message in (
        (
            ("/x", {"c": 1}),
            {},
            NotServingError,
            "the traffic of '/x' names 'c', but there is no application of that name",
        ),
        (("/x", {"a#Versio": 1}), {}, NotServingError, "has none of that name; did you mean 'Version'?"),
        (("nowhere", {"a": 1}), {}, NotServingError, "there is no endpoint 'nowhere'; there are a, b"),
        (("inside", {"a": 1}), {}, NotServingError, "'inside' has no route of its own: make an endpoint for it"),
        (("/x", {"a": 0}), {}, DeploymentError, "the weights of endpoint '/x' are all 0"),
        (("/x", {}), {}, DeploymentError, "endpoint '/x' needs a deployment that its requests go to"),
        (("/x", {"a": -1}), {}, DeploymentError, "gives 'a' the weight -1: weights are numbers from 0 on"),
        (("/x", {"a": 1}), {"sticky_by": "user"}, DeploymentError, "'header:NAME', 'cookie:NAME', 'query:NAME'"),
        (("/x", {"a": 1}), {"shadow": {"b": 2}}, DeploymentError, "gets a share of the requests, at most 1, not 2.0"),
        (("/x", [("a", 1)]), {}, DeploymentError, "the traffic of '/x' maps names to numbers"),
    ):
        with pytest.raises(error) as raised:
            serve.set_traffic(*arguments, **named)  # type: ignore[arg-type]
        assert message in str(raised.value)
    with pytest.raises(NotServingError, match="endpoint 'a' is that of an application, and goes with it"):
        serve.delete_endpoint("a")
    serve.delete("inside")
