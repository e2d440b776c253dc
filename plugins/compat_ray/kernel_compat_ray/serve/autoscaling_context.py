"""The context of autoscaling policies by the names that it has in Ray Serve.

kernel-serve asks for `with_ray_names` where it loads a policy: it is an entry point of its group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kernel.serve import autoscaling
from kernel.serve.autoscaling.policy_wrappers import Policy
from kernel.serve.settings import AutoscalingConfig
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class AutoscalingContext(autoscaling.AutoscalingContext):
    """Is the argument of a policy: kernel's context, which has Ray Serve's names as well."""

    @property
    def current_num_replicas(self) -> int:
        """The number of replicas that take requests."""
        return self.ready

    @property
    def target_num_replicas(self) -> int:
        """The number of replicas that there should be."""
        return self.current_target

    @property
    def running_replicas(self) -> list[str]:
        """The ids of the replicas that are known to work."""
        return list(self.replicas)

    @property
    def total_num_requests(self) -> float:
        """The mean number of requests, waiting ones included."""
        return self.requests

    @property
    def total_queued_requests(self) -> float:
        """The mean number of waiting requests."""
        return self.queued

    @property
    def total_running_requests(self) -> float:
        """The mean number of requests that are worked on."""
        return self.ongoing

    @property
    def capacity_adjusted_min_replicas(self) -> int:
        """The lower bound of the number of replicas."""
        return self.min_replicas

    @property
    def capacity_adjusted_max_replicas(self) -> int:
        """The upper bound of the number of replicas."""
        return self.max_replicas

    @property
    def policy_state(self) -> Mapping[str, Any]:
        """The state that the policy returned when it was called last."""
        return self.state

    @property
    def current_time(self) -> float:
        """The time in seconds of some clock."""
        return self.now

    @property
    def config(self) -> AutoscalingConfig:
        """The settings of autoscaling."""
        return self.settings


def with_ray_names(policy: Policy) -> Policy:
    """Return the policy as one that is asked with Ray Serve's names in its context."""

    def asked(context: autoscaling.AutoscalingContext) -> Any:
        return policy(AutoscalingContext(**{each.name: getattr(context, each.name) for each in fields(context)}))

    return asked
