"""The context that policies get, and the default policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, NoReturn

from kernel_serve.settings import AutoscalingConfig
from kernel_spec.dataclass import dataclass

SLACK = 0.05
"""The share of their target by which the replicas may have too many requests before one is added: noise is smaller."""

SMALLEST_SLACK = 0.1
"""The same for a few replicas, in replicas."""


@dataclass(frozen=True, slots=True)
class AutoscalingContext:
    """The argument of a policy, which returns how many replicas a deployment should have.

    `queued` and `ongoing` are means, over the look-back period, of the requests that waited and that were worked on;
    `queued_now` and `ongoing_now` are the latest numbers. `idle_s` is the number of seconds without any request (0
    while there is one). A policy may return any number: the autoscaler keeps it within the bounds.
    """

    settings: AutoscalingConfig
    now: float
    """The time in seconds of some clock; only differences have a meaning."""
    current_target: int
    """The number of replicas that the deployment should have now."""
    ready: int
    """The number of replicas that take requests."""
    queued: float = 0.0
    ongoing: float = 0.0
    queued_now: int = 0
    ongoing_now: int = 0
    idle_s: float = 0.0
    min_replicas: int = 0
    max_replicas: int = 1
    """The upper bound. Both bounds are those of the settings, or tighter where the cluster has no more room."""
    replicas: Mapping[str, float] = field(default_factory=dict)
    """The number of requests that each replica works on, by its id."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Metrics of the replicas, in any form."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The state that the policy returned, beside the number, when it was called last."""

    @property
    def requests(self) -> float:
        """The mean number of requests, waiting ones included."""
        return self.queued + self.ongoing

    if not TYPE_CHECKING:  # A type checker would take every name for an attribute.

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError that lists the names that there are."""
            kind = type(self)
            known = ", ".join(each for each in dir(kind) if not each.startswith("_"))
            hint = "" if name.startswith("_") else f"; a policy's context has {known}"
            raise AttributeError(f"{kind.__name__} has no attribute {name!r}{hint}", name=name, obj=self)


def default_policy(context: AutoscalingContext) -> int:
    """Return the number of replicas at which each has `target_ongoing_requests`.

    If there are only a few requests too many, the number stays. A request that waits wakes a deployment without
    replicas; a last replica stops once there are no requests.
    """
    settings, current = context.settings, context.current_target
    if current == 0:
        return max(1, math.ceil(settings.upscaling_factor)) if context.queued_now else 0
    if current == 1 and context.idle_s > 0:
        return 0
    needed = context.requests / settings.target_ongoing_requests
    slack = max(SMALLEST_SLACK, SLACK * current)
    if current < needed <= current + slack:
        return current
    return math.ceil(needed - 1e-9)
