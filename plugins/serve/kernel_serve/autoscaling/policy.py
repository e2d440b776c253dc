"""What a policy is told, and the policy that is used unless another is named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel_serve.autoscaling.other_names import OtherNames
from kernel_serve.settings import AutoscalingConfig
from kernel_spec.dataclass import dataclass

SLACK = 0.05
"""By what share of their target the replicas may have too much before there are more: else noise would add some."""

SMALLEST_SLACK = 0.1
"""The same for a few replicas, in replicas."""


@dataclass(frozen=True, slots=True)
class AutoscalingContext(OtherNames):
    """What there is to know when a policy is asked how many replicas a deployment should have.

    `queued` and `ongoing` are means, over the look-back period, of the requests that waited and that were worked on;
    `queued_now` and `ongoing_now` are the latest numbers. `idle_s` is for how many seconds there has been no request
    at all (0 while there is one). A policy may return what it likes: the autoscaler keeps the bounds.
    """

    settings: AutoscalingConfig
    now: float
    """Seconds of some clock; only differences mean anything."""
    current_target: int
    """The replicas that the deployment is to have now."""
    ready: int
    """Those that take requests."""
    queued: float = 0.0
    ongoing: float = 0.0
    queued_now: int = 0
    ongoing_now: int = 0
    idle_s: float = 0.0
    min_replicas: int = 0
    max_replicas: int = 1
    """The bounds that hold now: of the settings, or tighter where the cluster has no more room."""
    replicas: Mapping[str, float] = field(default_factory=dict)
    """Id of a replica to the requests that it works on."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """What replicas say of themselves, free-form."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What the policy returned, beside the number, when it was asked last."""

    @property
    def requests(self) -> float:
        """The mean number of requests, waiting or worked on."""
        return self.queued + self.ongoing


def default_policy(context: AutoscalingContext) -> int:
    """Return the number of replicas of which each has `target_ongoing_requests`.

    Where there are a few requests too many for the replicas that there are, their number stays. A deployment without
    replicas is woken by a request that waits, a last replica is not needed once there is none.
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
