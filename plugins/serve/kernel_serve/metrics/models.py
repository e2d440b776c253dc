"""Metrics of batches and multiplexed models, in the replica that has them."""

from __future__ import annotations

from kernel_serve.context import replica_of_process
from kernel_serve.metrics.buckets import LATENCY_MS, SIZES
from kernel_serve.metrics.registry import REGISTRY

_LABELS = ("application", "deployment", "replica", "function")
_PROCESS = ("replica",)
"""The label that names the process."""


class BatchMetrics:
    """Holds the series of one function that takes batches."""

    __slots__ = ("sizes", "times", "waits")

    def __init__(self, function: str) -> None:
        place = (*_place(), function)
        self.sizes = REGISTRY.histogram(
            "serve_batch_size", "How many requests went together.", _LABELS, SIZES, _PROCESS
        ).labelled(*place)
        self.waits = REGISTRY.histogram(
            "serve_batch_wait_ms",
            "Milliseconds that the first of a batch waited for the others.",
            _LABELS,
            LATENCY_MS,
            _PROCESS,
        ).labelled(*place)
        self.times = REGISTRY.histogram(
            "serve_batch_execution_ms",
            "Milliseconds that the function took for a batch.",
            _LABELS,
            LATENCY_MS,
            _PROCESS,
        ).labelled(*place)


class ModelMetrics:
    """Holds the series of one loader of multiplexed models. Models have no label: there may be any number of them."""

    __slots__ = ("failures", "gets", "loads", "times", "unloads")

    def __init__(self, function: str) -> None:
        place = (*_place(), function)
        self.gets = REGISTRY.counter(
            "serve_multiplexed_gets_total", "How often a model was asked for.", _LABELS, _PROCESS
        ).labelled(*place)
        self.loads = REGISTRY.counter(
            "serve_multiplexed_model_loads_total", "Models that were loaded.", _LABELS, _PROCESS
        ).labelled(*place)
        self.failures = REGISTRY.counter(
            "serve_multiplexed_model_load_failures_total", "Models whose loader raised.", _LABELS, _PROCESS
        ).labelled(*place)
        self.unloads = REGISTRY.counter(
            "serve_multiplexed_model_unloads_total", "Models that were let go.", _LABELS, _PROCESS
        ).labelled(*place)
        self.times = REGISTRY.histogram(
            "serve_multiplexed_model_load_ms", "Milliseconds that loading a model took.", _LABELS, LATENCY_MS, _PROCESS
        ).labelled(*place)


def _place() -> tuple[str, str, str]:
    replica = replica_of_process()
    return (replica.app_name, replica.deployment, replica.replica_id) if replica is not None else ("", "", "")
