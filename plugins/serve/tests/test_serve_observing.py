"""Observing a running Serve: metrics of all processes, access logs, logs of user code."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kernel_serve.cli.main import serve as serve_command

import kernel
from kernel import serve
from kernel.testing.faults import wait_until

SECONDS = 120.0
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@serve.deployment
class Kitchen:
    async def __call__(self, dish: str) -> str:
        return f"hello, {dish}"

    async def pid(self) -> int:
        return os.getpid()


@serve.deployment
class Waiter:
    def __init__(self, kitchen: Any) -> None:
        self.kitchen = kitchen
        self.orders = serve.metrics.Counter("orders_total", "Orders.", ("dish",))

    async def __call__(self, request: Any) -> str:
        logging.getLogger("kernel.serve.waiter").info("an order")
        if request.url.path.endswith("/burnt"):
            raise RuntimeError("burnt")
        self.orders.inc(tags={"dish": "soup"})
        return str(await self.kitchen.remote("soup"))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


def into_files(folder: str) -> Callable[[], Any]:
    """Return what `tracing` takes: spans go into a file for each process."""

    def exporter() -> Any:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

        file = open(f"{folder}/spans-{os.getpid()}", "a", buffering=1)  # noqa: SIM115 - as long as the process
        return SimpleSpanProcessor(ConsoleSpanExporter(out=file, formatter=lambda span: span.to_json(None) + "\n"))

    return exporter


@pytest.fixture(scope="module")
def get(logs: Path) -> Iterator[Callable[[str], str]]:
    kernel.shutdown()
    kernel.init(num_cpus=4, log_to_driver=False)
    serve.start(http_options={"port": 0}, tracing=into_files(str(logs)))
    serve.run(
        Waiter.options(
            logging_config={"encoding": "JSON", "logs_dir": str(logs), "enable_access_log": True}
        ).bind(Kitchen.bind()),
        route_prefix="/table",
    )  # fmt: skip
    (proxy,) = serve.status()["proxies"].values()

    def get(path: str) -> str:
        request = urllib.request.Request(
            f"http://{proxy['address']}{path}", headers={"x-request-id": f"id-{path}", **TRACED}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return str(answer.read().decode())

    assert get("/table/1?card=secret") == "hello, soup"
    for path, status in (("/table/burnt", 500), ("/nowhere/at/all", 404)):
        with pytest.raises(urllib.error.HTTPError) as failed:
            get(path)
        assert failed.value.code == status
    yield get
    serve.shutdown()
    kernel.shutdown()


def value(text: str, name: str, **labels: str) -> float:
    """Return the sum of the series of that name with such labels."""
    found = 0.0
    for line in text.splitlines():
        parts = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
        if parts and parts[1] == name:
            given = dict(re.findall(r'(\w+)="([^"]*)"', parts[2] or ""))
            if labels.items() <= given.items():
                found += float(parts[3])
    return found


def silent(text: str) -> list[str]:
    """Return the processes that did not answer in time."""
    return re.findall(r'serve_metrics_silent\{source="([^"]*)"\} 1', text)


def whole(get: Callable[[str], str]) -> str:
    """Return the metrics with the numbers of all processes: on a busy machine one may not answer in time."""
    found = [""]

    def is_whole() -> bool:
        found[0] = get("/-/metrics")
        return not silent(found[0])

    wait_until(is_whole, SECONDS, "an answer of all processes")
    return found[0]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_each_proxy_tells_the_numbers_of_all_processes(get: Callable[[str], str]) -> None:
    def counted() -> bool:  # a replica counts a request when it has sent the answer
        text = whole(get)
        of_replicas = [
            value(text, "serve_deployment_requests_total", deployment=each) for each in ("Waiter", "Kitchen")
        ]
        return of_replicas == [2, 1]

    wait_until(counted, SECONDS, "the replicas have counted")
    text = whole(get)
    assert value(text, "serve_http_requests_total", deployment="Waiter", route="/table", status="200") == 1
    assert value(text, "serve_http_requests_total", deployment="Waiter", route="/table", status="500") == 1
    assert value(text, "serve_http_requests_total", deployment="", route="", status="404") == 1
    assert "nowhere" not in text
    assert value(text, "serve_http_request_latency_ms_count", route="/table") == 2
    assert value(text, "serve_deployment_requests_total", deployment="Waiter", type="http") == 2
    assert value(text, "serve_deployment_errors_total", deployment="Waiter", type="http") == 1
    assert value(text, "serve_deployment_requests_total", deployment="Kitchen", type="call") == 1
    assert value(text, "serve_deployment_request_latency_ms_bucket", deployment="Kitchen", type="call", le="+Inf") == 1
    assert value(text, "serve_deployment_replicas", deployment="Kitchen", state="RUNNING") == 1
    assert value(text, "serve_replica_starts_total") == 2
    assert value(text, "serve_router_requests_total", deployment="Kitchen") == 1
    assert value(text, "serve_metrics_sources", answered="true") == 4
    assert value(text, "serve_metrics_sources", answered="false") == 0
    assert value(text, "orders_total", application="default", deployment="Waiter", dish="soup") == 1
    for component in ("proxy", "replica", "controller"):
        assert value(text, "serve_process_memory_bytes", component=component) > 1e6
    wait_until(
        lambda: value(get("/-/metrics"), "serve_event_loop_lag_ms_count", component="proxy") > 0, SECONDS, "a look"
    )


def of_session(name: str, *tags: str, **wanted: str) -> dict[tuple[str, ...], float]:
    """Return the series of that name that `kernel.metrics.collect` has, by the values of `tags`."""
    rows = [row for row in kernel.metrics.collect(name) if wanted.items() <= row["tags"].items()]
    return {tuple(row["tags"][tag] for tag in tags): row["value"] for row in rows}


def test_the_session_has_the_numbers_of_serve_with_those_of_ended_replicas(get: Callable[[str], str]) -> None:
    def is_told() -> bool:
        requests = of_session("serve_http_requests_total", "route", "status", deployment="Waiter")
        return requests.get(("/table", "200")) == 1 and of_session(
            "serve_deployment_replicas", "state", deployment="Kitchen"
        ) == {("RUNNING",): 1}

    wait_until(is_told, SECONDS, "what proxies and the controller count")
    assert of_session("orders_total", "dish", deployment="Waiter") == {("soup",): 1}
    serve.run(Kitchen.bind(), name="other", route_prefix=None)
    other = serve.get_app_handle("other")
    pids = {other.pid.remote().result(SECONDS) for _ in range(3)}
    assert len(pids) == 1

    def counted() -> dict[tuple[str, ...], float]:
        return of_session("serve_deployment_requests_total", "replica", "type", application="other")

    wait_until(lambda: list(counted().values()) == [3], SECONDS, "the replica has counted")
    ((replica, _),) = counted()
    assert replica.startswith("other#Kitchen#")
    (router,) = of_session("serve_router_requests_total", "router", application="other")
    assert router[0].startswith("caller ")
    serve.delete("other")
    wait_until(lambda: counted() == {("", "call"): 3}, SECONDS, "the sum without the name of the replica")
    assert "other#Kitchen" not in whole(get)


def test_every_line_of_the_metrics_is_of_the_format(get: Callable[[str], str]) -> None:
    label = r'\w+="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"[a-z_:][a-z0-9_:]*(\{{{label}(,{label})*\}})? (-?[0-9.e+-]+|[+-]Inf|NaN)")
    seen: set[str] = set()
    for line in whole(get).splitlines():
        if line.startswith("# TYPE "):
            assert line not in seen
            seen.add(line)
        elif not line.startswith("# HELP "):
            assert sample.fullmatch(line), line
    assert len(seen) > 20


def test_a_replica_that_hangs_is_named_and_holds_nobody_up(get: Callable[[str], str]) -> None:
    pid = serve.get_deployment_handle("Kitchen").pid.remote().result(SECONDS)
    text = ""

    def alone_is_silent() -> bool:
        nonlocal text
        text = get("/-/metrics")
        return len(silent(text)) == 1

    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(alone_is_silent, SECONDS, "an answer of all others")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert value(text, "serve_metrics_sources", answered="false") == 1
    assert re.fullmatch(r"replica default#Kitchen#\w+", silent(text)[0])
    assert value(text, "serve_http_requests_total", deployment="Waiter") == 2


def test_programs_that_call_handles_tell_their_numbers(get: Callable[[str], str]) -> None:
    here = f"caller {kernel.get_runtime_context().get_node_id()[:12]}-{os.getpid()}"

    def routed(router: str) -> float:
        return value(whole(get), "serve_router_requests_total", deployment="Kitchen", router=router)

    before = routed(here)
    for _ in range(3):
        serve.get_deployment_handle("Kitchen").pid.remote().result(SECONDS)
    wait_until(lambda: routed(here) >= before + 3, SECONDS, "the numbers of this program")
    callers = re.findall(r'serve_router_requests_total\{[^}]*router="(\w+) ', whole(get))
    assert sorted(callers) == ["caller", "proxy", "replica"], "parts of Serve are there once"


def test_the_access_log_of_a_proxy_has_a_line_for_each_request(get: Callable[[str], str]) -> None:
    session = kernel.init(ignore_reinit_error=True)["session_dir"]
    folder = Path(str(session)) / "logs" / "serve"
    wait_until(lambda: any(len(lines(path)) >= 3 for path in folder.glob("access-proxy-*")), SECONDS, "three lines")
    (path,) = folder.glob("access-proxy-*")
    served, burnt, nowhere = lines(path)[:3]
    replica = served.pop("replica")
    assert re.fullmatch(r"default#Waiter#\w+", replica)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", served.pop("time"))
    assert served.pop("milliseconds") > 0 and served.pop("client").startswith("127.0.0.1:")
    assert served == {
        "request_id": "id-/table/1?card=secret", "method": "GET", "path": "/table/1", "route": "/table",
        "status": 200, "bytes": len("hello, soup"), "deployment": "default#Waiter", "protocol": "HTTP/1.1",
    }  # fmt: skip
    assert (burnt["status"], burnt["replica"]) == (500, replica)
    assert (nowhere["status"], nowhere["route"], nowhere["deployment"]) == (404, "", "")


def test_a_replica_writes_as_its_logging_config_says(get: Callable[[str], str], logs: Path) -> None:
    def access() -> list[dict[str, Any]]:
        return [line for path in logs.glob("access-replica-*") for line in lines(path)]

    wait_until(lambda: len(access()) >= 2, SECONDS, "two lines of access")
    assert [(each["path"], each["status"]) for each in access()] == [("/table/1", 200), ("/table/burnt", 500)]
    (path,) = logs.glob("default-Waiter-*.log")
    order, _, burnt = lines(path)[:3]
    assert (order["message"], order["logger"]) == ("an order", "kernel.serve.waiter")
    assert (order["request_id"], order["route"]) == ("id-/table/1?card=secret", "/table")
    assert (order["application"], order["deployment"]) == ("default", "Waiter")
    assert burnt["level"] == "ERROR" and burnt["request_id"] == "id-/table/burnt"
    assert "RuntimeError: burnt" in burnt["exception"]


def test_top_shows_what_runs(get: Callable[[str], str], tmp_path: Path) -> None:
    output = ""

    def looked() -> bool:  # one that does not answer in time has no numbers
        nonlocal output
        shown = CliRunner().invoke(serve_command, ["top", "--once", "--interval", "0.2"])
        assert shown.exit_code == 0, shown.output
        output = shown.output
        return re.search(r"^Waiter +HEALTHY +1/1 .* 0 ongoing, 1 errors +\d+ MB$", output, re.MULTILINE) is not None

    wait_until(looked, SECONDS, "a look with the numbers of all")
    lines = output.splitlines()
    assert re.match(r"serve \d\d:\d\d:\d\d  .* req/s", lines[0])
    assert re.match(r"default  RUNNING  /table", lines[3])
    assert re.search(r"^Kitchen +HEALTHY +1/1 ", output, re.MULTILINE)
    picture = tmp_path / "top.svg"
    shown = CliRunner().invoke(serve_command, ["top", "--svg", str(picture), "--interval", "0.2"])
    assert shown.exit_code == 0 and "Kitchen" in picture.read_text()


SPANS = {
    "GET /table": "", "queue Waiter": "GET /table", "replica Waiter": "GET /table",
    "Waiter.__call__": "replica Waiter", "call Kitchen.__call__": "Waiter.__call__",
    "queue Kitchen": "call Kitchen.__call__", "replica Kitchen": "call Kitchen.__call__",
    "Kitchen.__call__": "replica Kitchen",
}  # fmt: skip
"""Those of a request, and their parents."""


def test_a_trace_goes_through_all_processes(get: Callable[[str], str], logs: Path) -> None:
    def spans() -> list[dict[str, Any]]:
        found = [line for path in logs.glob("spans-*") for line in lines(path)]
        return [each for each in found if each["context"]["trace_id"] == f"0x{TRACE}"]

    def has_parents() -> bool:
        found = spans()
        ids = {each["context"]["span_id"] for each in found}
        return all(each["parent_id"] in ids or not SPANS[each["name"]] for each in found)

    wanted = SPANS
    wait_until(lambda: wanted.keys() <= {each["name"] for each in spans()} and has_parents(), SECONDS, "all spans")
    assert len(list(logs.glob("spans-*"))) >= 3
    by_id = {each["context"]["span_id"]: each for each in spans()}
    for span in by_id.values():
        parent = by_id.get(span["parent_id"])
        assert (parent["name"] if parent else "") == wanted[span["name"]], span
    burnt = [each for each in by_id.values() if each["attributes"].get("http.response.status_code") == 500]
    assert [each["attributes"]["serve.request_id"] for each in burnt] == ["id-/table/burnt"]


def test_another_setting_of_traces_reaches_what_runs(get: Callable[[str], str], tmp_path: Path) -> None:
    def names(path: Path) -> set[str]:
        return {line["name"] for file in path.glob("spans-*") for line in lines(file)}

    serve.start(tracing=into_files(str(tmp_path)))
    assert get("/table") == "hello, soup"
    wait_until(lambda: SPANS.keys() <= names(tmp_path), SECONDS, "spans of the proxy and of both replicas")
    serve.start(tracing=False)
    for file in tmp_path.glob("spans-*"):
        file.write_text("")
    assert get("/table") == "hello, soup"
    assert not names(tmp_path)
