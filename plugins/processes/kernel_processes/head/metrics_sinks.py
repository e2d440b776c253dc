"""Pass the metrics of the session to the chosen sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kernel_processes.head.metrics_service import MetricsService
from kernel_spec.metrics import LEAST_INTERVAL_SECONDS, FamilySnapshot, MetricsSink, MetricsSnapshot, merged

T = TypeVar("T")


class MetricsSinks:
    """Collects metrics for the chosen sinks, none if there is no sink. Runs in the head's loop.

    `call_later(seconds, function)` is the loop's, `clock` seconds since the epoch. `on_fault(sink, error)` is called
    with a sink that has raised, which is removed.
    """

    def __init__(
        self,
        sinks: Sequence[MetricsSink],
        service: MetricsService,
        call_later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float],
        on_fault: Callable[[MetricsSink, Exception], None],
    ) -> None:
        self._sinks = list(sinks)
        self._service = service
        self._call_later = call_later
        self._clock = clock
        self._on_fault = on_fault

    def start(self) -> None:
        """Begin to count the time to the first collections."""
        for sink in list(self._sinks):
            self._wait(sink)

    def _wait(self, sink: MetricsSink) -> None:
        seconds = self._ask(sink, lambda: max(LEAST_INTERVAL_SECONDS, float(sink.interval)))
        if seconds is not None:
            self._call_later(seconds, lambda: self._collect(sink))

    def _collect(self, sink: MetricsSink) -> None:
        def hand_over(session: MetricsSnapshot) -> None:
            self._hand(sink, [session])
            self._wait(sink)

        if sink in self._sinks:
            self._service.collect(hand_over)

    def _hand(self, sink: MetricsSink, more: Sequence[MetricsSnapshot]) -> None:
        families: list[FamilySnapshot]
        families, _ = merged([*more, *self._service.told()])
        self._ask(sink, lambda: sink.take(self._clock(), families))

    def _ask(self, sink: MetricsSink, question: Callable[[], T]) -> T | None:
        try:
            return question() if sink in self._sinks else None
        except Exception as error:
            self._sinks = [one for one in self._sinks if one is not sink]
            self._on_fault(sink, error)
            return None

    def close(self) -> None:
        """Pass the last metrics of ended processes to the sinks, and close these."""
        for sink in list(self._sinks):
            self._hand(sink, [])
            self._ask(sink, sink.close)
        self._sinks = []
