"""What Serve counts in this process.

It is a registry of its own, since Serve asks its own processes for what `/-/metrics` shows: there each process is there
as long as it lives. The kernel's registry includes it, so `kernel.metrics.collect()` has it beside all else, with what
ended processes have counted.
"""

from __future__ import annotations

import os

from kernel.metrics.registry import REGISTRY as KERNEL_REGISTRY
from kernel.metrics.registry import MetricRegistry


class ServeRegistry(MetricRegistry):
    """The metrics of Serve and its deployments in one process."""

    is_asked = False
    """Whether Serve asks this process for its snapshot: it does so if the process is a part of Serve."""


REGISTRY = ServeRegistry()
"""That of this process."""

KERNEL_REGISTRY.include(REGISTRY.families)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=REGISTRY.begin_anew)
