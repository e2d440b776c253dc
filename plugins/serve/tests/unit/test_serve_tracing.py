"""The spans of a request, with the SDK's exporter in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from random import Random
from typing import Any

import pytest
from kernel_serve import context, tracing
from kernel_serve.context import ReplicaContext
from kernel_serve.errors import DeploymentError
from kernel_serve.metrics.replica import ReplicaMetrics
from kernel_serve.replica.gate import AdmissionGate
from kernel_serve.replica.request_intake import RequestIntake
from kernel_serve.replica.user_code import UserCode
from kernel_serve.routing.dispatcher import Dispatcher, RoutedRequest
from kernel_serve.tracing import setting
from kernel_serve.tracing.providers import provider_for
from kernel_serve.tracing.spans import Tracing
from kernel_serve.values import Replica, ReplicaSet
from kernel_serve.wire.link import Exchange, RequestLink
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kernel.metrics.registry import MetricRegistry

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "active", Tracing(provider))
    monkeypatch.setattr(context, "_replica_of_process", ReplicaContext("shop", "Till", "r7"))
    yield exporter


def scope(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"method": "GET", "path": "/till/1", "http_version": "1.1", "headers": list(headers)}


def active() -> Tracing:
    assert tracing.active is not None
    return tracing.active


def by_name(exporter: InMemorySpanExporter) -> dict[str, Any]:
    return {span.name: span for span in exporter.get_finished_spans()}


def parent_of(span: Any) -> str:
    return f"{span.parent.span_id:016x}"


def id_of(span: Any) -> str:
    return f"{span.context.span_id:016x}"


def test_a_request_belongs_to_the_trace_of_its_client(exporter: InMemorySpanExporter) -> None:
    meta: dict[str, Any] = {"id": "id-1"}
    headers = ((b"traceparent", f"00-{TRACE}-{PARENT}-01".encode()), (b"baggage", b"who=me"), (b"other", b"x"))
    span = active().arrived(scope(*headers), "/till", "shop#Till", meta)
    assert meta["trace"]["traceparent"] == f"00-{TRACE}-{id_of(span)}-01"
    assert meta["trace"]["baggage"] == "who=me"
    active().answered(span, 503, "r7")
    (ended,) = exporter.get_finished_spans()
    assert (ended.name, parent_of(ended), f"{ended.context.trace_id:032x}") == ("GET /till", PARENT, TRACE)
    assert ended.attributes is not None and ended.attributes["http.response.status_code"] == 503
    assert ended.attributes["serve.deployment"] == "Till" and ended.attributes["url.path"] == "/till/1"
    assert ended.status.status_code == trace.StatusCode.ERROR


class Till:
    def __init__(self, called: list[dict[str, Any]]) -> None:
        self.called = called

    async def __call__(self) -> str:
        meta = {"id": "id-1", "method": "cook"}
        self.called.append(meta)
        active().over(active().calling(meta, "shop#Kitchen"))
        return "sold"

    def plain(self) -> str:
        with trace.get_tracer("mine", tracer_provider=active()._provider).start_as_current_span("mine"):
            return "sold"

    async def broken(self) -> None:
        raise ValueError("no change")

    async def items(self) -> AsyncIterator[int]:
        for number in range(3):
            yield number


def carry_out(meta: dict[str, Any], method: str, called: list[dict[str, Any]]) -> None:
    """Send a request through a dispatcher, over a link, to a replica's user code, all in this process."""

    async def run() -> None:
        code = UserCode(Till, (called,), {}, 2)
        await code.construct()

        async def handle(exchange: Exchange, meta: Any, body: bytes, end: bool) -> int:
            try:
                result = await code.run(*code.method(method), (), {})
                if hasattr(result, "__aiter__"):
                    result = [item async for item in code.items(result)]
                exchange.send(None, str(result).encode(), end=True)
            except ValueError:
                exchange.send(None, b"raised", end=True)
                return 500
            return 200

        intake = RequestIntake(
            AdmissionGate(5), {"call": handle}, ReplicaMetrics(MetricRegistry(), "shop", "Till", "r7")
        )
        router = RequestLink(lambda data: replica.feed(data))
        replica = RequestLink(lambda data: router.feed(data), intake.take)
        dispatcher = Dispatcher("shop#Till", "n", Random(1), lambda: None)
        replica_set = ReplicaSet("shop#Till", (Replica("r7", "n", "", None, "1", 5),), -1, None)
        answered: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        dispatcher.submit(RoutedRequest(meta, b"", True, answered.set_result, answered.set_exception))
        dispatcher.update(replica_set)
        dispatcher.linked("r7", router)
        await asyncio.wait_for(answered, 120)
        while intake._tasks:
            await asyncio.sleep(0)

    asyncio.run(run())


def test_the_spans_of_queue_replica_user_code_and_its_calls_are_a_tree(exporter: InMemorySpanExporter) -> None:
    meta: dict[str, Any] = {"id": "id-1", "type": "call"}
    called: list[dict[str, Any]] = []
    root = active().arrived(scope(), "/till", "shop#Till", meta)
    carry_out(meta, "__call__", called)
    active().answered(root, 200, "r7")
    spans = by_name(exporter)
    assert set(spans) == {"GET /till", "queue Till", "replica Till", "Till.__call__", "call Kitchen.cook"}
    assert parent_of(spans["queue Till"]) == parent_of(spans["replica Till"]) == id_of(root)
    assert spans["queue Till"].attributes["serve.replica"] == "r7"
    assert parent_of(spans["Till.__call__"]) == id_of(spans["replica Till"])
    assert parent_of(spans["call Kitchen.cook"]) == id_of(spans["Till.__call__"])
    assert called[0]["trace"]["traceparent"].split("-")[2] == id_of(spans["call Kitchen.cook"])
    assert len({span.context.trace_id for span in spans.values()}) == 1


@pytest.mark.parametrize("method", ["plain", "broken", "items"])
def test_all_kinds_of_user_code_have_their_spans(exporter: InMemorySpanExporter, method: str) -> None:
    meta: dict[str, Any] = {"id": "id-1", "type": "call"}
    active().arrived(scope(), "/till", "shop#Till", meta)
    carry_out(meta, method, [])
    spans = by_name(exporter)
    if method == "plain":  # in a thread
        assert parent_of(spans["mine"]) == id_of(spans["Till.plain"])
    elif method == "broken":
        assert spans["replica Till"].status.status_code == trace.StatusCode.ERROR
        assert spans["Till.broken"].events[0].attributes["exception.message"] == "no change"
    else:
        assert spans["Till yields"].attributes["serve.items"] == 3
        assert parent_of(spans["Till yields"]) == id_of(spans["replica Till"])


def test_a_request_of_no_trace_has_no_spans(exporter: InMemorySpanExporter) -> None:
    carry_out({"id": "id-1", "type": "call"}, "plain", [])
    assert set(by_name(exporter)) == {"mine"}


def test_a_request_that_finds_no_replica_tells_why(exporter: InMemorySpanExporter) -> None:
    meta: dict[str, Any] = {"id": "id-1", "type": "call"}
    active().arrived(scope(), "/till", "shop#Till", meta)

    async def run() -> None:
        dispatcher = Dispatcher("shop#Till", "n", Random(1), lambda: None)
        request = RoutedRequest(meta, b"", True, lambda exchange: None, lambda error: None)
        dispatcher.submit(request)
        dispatcher.cancel(request)

    asyncio.run(run())
    queue = by_name(exporter)["queue Till"]
    assert queue.events[0].attributes["exception.type"].endswith("RequestCancelledError")


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_variables_of_opentelemetry_turn_it_on(variables: dict[str, str], wanted: bool) -> None:
    assert setting.wanted(variables) is wanted


def test_a_setting_that_can_not_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: None)  # whatever another test has set
    with pytest.raises(DeploymentError, match="tracing is True, False, or a function .* not 'jaeger'"):
        setting.check("jaeger")
    with pytest.raises(DeploymentError, match="the function for tracing returned a dict, not an exporter"):
        provider_for(dict, "replica", "r7")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(DeploymentError, match=r"no exporter 'carrier-pigeon' of traces \(OTEL_TRACES_EXPORTER\)"):
        provider_for(True, "replica", "r7")
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(DeploymentError, match=r"tracing needs OpenTelemetry.*pip install opentelemetry-sdk"):
        setting.check(True)


def test_a_process_whose_setting_fails_serves_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracing, "active", None)
    setting.begin("no_such_module:exporter", "replica", "r7")
    assert tracing.active is None
    assert "requests are not traced here: component='replica'" in caplog.text
