"""The registry of what Serve counts in this process.

It is a registry of its own, because `/-/metrics` asks the processes of Serve alone, and shows each as long as it lives.
The kernel's registry includes it, so `kernel.metrics.collect()` has it beside everything else, together with what ended
processes have counted.
"""

from __future__ import annotations

import os

from kernel.metrics.registry import REGISTRY as SESSION_REGISTRY
from kernel.metrics.registry import MetricRegistry


class ServeRegistry(MetricRegistry):
    """Holds the metrics of Serve and its deployments in one process."""

    is_asked = False
    """Whether this process is a part of Serve, which `/-/metrics` asks for its snapshot."""


REGISTRY = ServeRegistry()
"""The registry of this process."""

SESSION_REGISTRY.include(REGISTRY.families)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY.begin_anew)
