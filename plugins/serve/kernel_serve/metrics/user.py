"""Metrics of users' deployments: made and counted anywhere in user code, in any thread.

They have the application, the deployment and the replica in which they count as tags, beside the tags that they are
given.
"""

from __future__ import annotations

from kernel.metrics import user
from kernel.metrics.registry import MetricRegistry
from kernel_serve.context import replica_of_process
from kernel_serve.metrics.registry import REGISTRY


class InReplica:
    """Adds the tags of the replica to a metric, and puts it into Serve's registry."""

    registry: MetricRegistry = REGISTRY
    automatic: tuple[str, ...] = ("application", "deployment", "replica")
    process_labels: tuple[str, ...] = ("replica",)

    def _where(self) -> tuple[str, ...] | None:
        replica = replica_of_process()
        return (replica.app_name, replica.deployment, replica.replica_id) if replica is not None else None


class Counter(InReplica, user.Counter):
    """A number that only grows: `inc`."""


class Gauge(InReplica, user.Gauge):
    """A number that is set: `set`."""


class Histogram(InReplica, user.Histogram):
    """The distribution of values: `observe`. `boundaries` are the upper bounds of its buckets, in rising order."""
