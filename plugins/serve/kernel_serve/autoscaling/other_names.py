"""The context of policies by the names that it has in Ray Serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_serve.settings import AutoscalingConfig


class OtherNames:
    """Other names of an `AutoscalingContext`'s fields."""

    __slots__ = ()

    if TYPE_CHECKING:
        settings: AutoscalingConfig
        now: float
        current_target: int
        ready: int
        queued: float
        ongoing: float
        min_replicas: int
        max_replicas: int
        replicas: Mapping[str, float]
        state: Mapping[str, Any]

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
        return self.queued + self.ongoing

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
