"""The numbers of `kernel serve top`, from the status of Serve and the metrics of two moments. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_serve.metrics.changes import Numbers, Spread, increase, spread
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests of the last seconds: how many a second, how many of these failed, latencies in milliseconds."""

    rate: float
    errors: float
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """Describes one replica. It has `ongoing` of at most `limit` requests; memory is in bytes."""

    id: str
    state: str
    traffic: Traffic
    ongoing: int
    limit: int
    memory: float
    note: str


@dataclass(frozen=True, slots=True)
class DeploymentRow:
    """Describes one deployment. `queued` requests wait in routers; `total_errors` counts those of living replicas."""

    name: str
    status: str
    states: Mapping[str, int]
    target: int
    traffic: Traffic
    queued: int
    ongoing: int
    total_errors: int
    message: str
    replicas: tuple[ReplicaRow, ...]


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """Describes one application for the table."""

    name: str
    status: str
    route: str
    message: str
    deployments: tuple[DeploymentRow, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Holds all rows.

    `traffic` is that of the proxies, `proxies` their addresses and status; `silent` did not answer in time.
    """

    traffic: Traffic
    ongoing: int
    memory: float
    proxies: tuple[tuple[str, str], ...]
    silent: tuple[str, ...]
    applications: tuple[ApplicationRow, ...]


def view(status: Mapping[str, Any], before: Numbers, now: Numbers, seconds: float) -> View:
    """Return the view of Serve. `seconds` are the time between `before` and `now`."""
    failed = sum(
        increase(before, now, "serve_http_requests_total", status=code)
        for code in now.values("serve_http_requests_total", "status")
        if not code.isdigit() or int(code) >= 500
    )
    answered = increase(before, now, "serve_http_requests_total")
    latency = spread(before, now, "serve_http_request_latency_ms")
    return View(
        _traffic(answered, failed, latency, seconds),
        int(now.total("serve_http_ongoing_requests")),
        now.total("serve_process_memory_bytes"),
        tuple((each["address"] or "-", each["status"]) for each in status["proxies"].values()),
        tuple(now.values("serve_metrics_silent", "source")),
        tuple(_application(each, before, now, seconds) for each in status["applications"].values()),
    )


def _application(state: Mapping[str, Any], before: Numbers, now: Numbers, seconds: float) -> ApplicationRow:
    rows = [_deployment(state["name"], name, each, before, now, seconds) for name, each in state["deployments"].items()]
    route = state.get("route_prefix") or "-"
    return ApplicationRow(state["name"], state["status"], route, _line(state["message"]), tuple(rows))


def _deployment(
    application: str, name: str, state: Mapping[str, Any], before: Numbers, now: Numbers, seconds: float
) -> DeploymentRow:
    labels = {"application": application, "deployment": name}
    return DeploymentRow(
        name,
        state["status"],
        state["replica_states"],
        state["target_num_replicas"],
        _carried_out(before, now, seconds, labels),
        int(now.total("serve_deployment_queued_requests", **labels)),
        int(now.total("serve_deployment_ongoing_requests", **labels)),
        int(now.total("serve_deployment_errors_total", **labels)),
        _line(state["message"]),
        tuple(_replica(each, before, now, seconds) for each in state["replicas"]),
    )


def _replica(state: Mapping[str, Any], before: Numbers, now: Numbers, seconds: float) -> ReplicaRow:
    id = state["replica_id"]
    return ReplicaRow(
        id,
        state["state"],
        _carried_out(before, now, seconds, {"replica": id}),
        int(now.total("serve_deployment_ongoing_requests", replica=id)),
        int(now.total("serve_deployment_max_ongoing_requests", replica=id)),
        now.total("serve_process_memory_bytes", component="replica", id=id),
        _line(state.get("waits_for") or ""),
    )


def _carried_out(before: Numbers, now: Numbers, seconds: float, labels: dict[str, str]) -> Traffic:
    return _traffic(
        increase(before, now, "serve_deployment_requests_total", **labels),
        increase(before, now, "serve_deployment_errors_total", **labels),
        spread(before, now, "serve_deployment_request_latency_ms", **labels),
        seconds,
    )


def _traffic(requests: float, errors: float, latency: Spread, seconds: float) -> Traffic:
    return Traffic(requests / seconds, errors / seconds, latency.percentile(0.5), latency.percentile(0.99))


def _line(message: str) -> str:
    """Return the last line of a message, which in a traceback is the error."""
    return message.strip().splitlines()[-1] if message.strip() else ""
