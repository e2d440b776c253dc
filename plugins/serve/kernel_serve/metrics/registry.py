"""What Serve counts in this process.

It is not the registry of `kernel.metrics`: Serve asks its own processes, leaves out those that have ended, and labels
its series with replicas, which come and go without end.
"""

from __future__ import annotations

from kernel.metrics.registry import MetricRegistry


class ServeRegistry(MetricRegistry):
    """The metrics of Serve and its deployments in one process."""

    is_asked = False
    """Whether this process is one that is asked for its snapshot: a part of Serve."""


REGISTRY = ServeRegistry()
"""That of this process."""
