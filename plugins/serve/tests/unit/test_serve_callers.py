"""The metrics of processes that Serve can't ask."""

from __future__ import annotations

from random import Random

import pytest
from kernel_serve.metrics import callers
from kernel_serve.metrics.callers import KEPT_SECONDS, CallerMetrics, CallerSnapshots
from kernel_serve.metrics.process import watch_process
from kernel_serve.metrics.registry import ServeRegistry
from kernel_serve.routing.dispatcher import Dispatcher

from kernel.metrics.registry import REGISTRY as SESSION_REGISTRY
from kernel_spec.metrics import MetricsSnapshot


def test_a_program_tells_what_its_router_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callers, "REGISTRY", ServeRegistry())
    dispatcher = Dispatcher("shop#Till", "n", Random(1), lambda: None)
    metrics = CallerMetrics("caller n-1", lambda: {"shop#Till": dispatcher})
    dispatcher.tally.submitted += 2
    snapshot = metrics.snapshot()
    assert snapshot is not None
    (routed,) = [each for each in snapshot.families if each.name == "serve_router_requests_total"]
    assert routed.samples == [(("shop", "Till", "caller n-1"), 2)]


def test_a_part_of_serve_does_not_tell_what_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ServeRegistry()
    monkeypatch.setattr(callers, "REGISTRY", registry)
    metrics = CallerMetrics("caller n-1", dict)
    assert metrics.snapshot() is not None
    watch_process(registry, "replica", "r1")
    assert metrics.snapshot() is None


def in_the_kernels_registry() -> list[object]:
    families = SESSION_REGISTRY.snapshot().families
    return [each.samples for each in families if each.name == "serve_router_requests_total"]


def test_the_kernels_registry_has_the_router_of_a_program_and_of_its_latest_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = ServeRegistry()
    monkeypatch.setattr(callers, "REGISTRY", registry)
    monkeypatch.setattr(callers, "_shown", None)
    before = in_the_kernels_registry()
    dispatcher = Dispatcher("shop#Till", "n", Random(1), lambda: None)
    for session in ("caller n-1", "caller m-1"):
        CallerMetrics(session, lambda: {"shop#Till": dispatcher}).show()
    assert in_the_kernels_registry() == [*before, [(("shop", "Till", "caller m-1"), 0)]]
    watch_process(registry, "replica", "r1")
    assert in_the_kernels_registry() == before, "a part of Serve shows its router itself"


def test_a_program_that_says_nothing_more_is_forgotten() -> None:
    callers = CallerSnapshots()
    callers.take(0.0, MetricsSnapshot("one", []))
    callers.take(5.0, MetricsSnapshot("other", []))
    callers.take(6.0, MetricsSnapshot("one", []))
    assert [each.origin for each in callers.snapshots(KEPT_SECONDS)] == ["one", "other"]
    assert [each.origin for each in callers.snapshots(KEPT_SECONDS + 5.5)] == ["one"]
    assert callers.snapshots(KEPT_SECONDS + 7) == []
