"""A policy's context by the names that policies of Ray Serve know, and the nearest of the library's names."""

from __future__ import annotations

import kernel_serve
import pytest
from kernel_serve import settings
from kernel_serve.autoscaling import AutoscalingContext


def test_a_policy_finds_its_context_by_the_names_that_it_knows() -> None:
    context = AutoscalingContext(
        settings.AutoscalingConfig(max_replicas=9), now=5.0, current_target=3, ready=2, queued=4.0, ongoing=6.0,
        min_replicas=1, max_replicas=8, replicas={"a": 2.0}, state={"x": 1},
    )  # fmt: skip
    assert (context.current_num_replicas, context.target_num_replicas, context.running_replicas) == (2, 3, ["a"])
    assert (context.total_num_requests, context.total_queued_requests, context.total_running_requests) == (10, 4, 6)
    assert (context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas) == (1, 8)
    assert (context.policy_state, context.current_time, context.config.max_replicas) == ({"x": 1}, 5.0, 9)


def test_the_nearest_name_is_said() -> None:
    with pytest.raises(AttributeError, match="'kernel_serve' has no attribute 'deploymnt'; did you mean 'deployment'"):
        kernel_serve.deploymnt  # noqa: B018
