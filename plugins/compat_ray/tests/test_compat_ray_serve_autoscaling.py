"""Autoscaling policies that know their context by Ray Serve's names."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import pytest
from kernel_compat_ray.serve.autoscaling_context import AutoscalingContext, with_ray_names

import kernel
from kernel.serve import autoscaling
from kernel.serve.settings import AutoscalingConfig
from kernel.testing.faults import wait_until

SECONDS = 120.0
CONTEXT = autoscaling.AutoscalingContext(
    AutoscalingConfig(max_replicas=9), now=5.0, current_target=3, ready=2, queued=4.0, ongoing=6.0,
    min_replicas=1, max_replicas=8, replicas={"a": 2.0}, state={"x": 1},
)  # fmt: skip


def seen_by_a_policy(context: autoscaling.AutoscalingContext) -> Any:
    """Return what a policy gets in place of a context."""
    return with_ray_names(lambda given: given)(context)


def test_a_policy_finds_its_context_by_the_names_that_it_knows() -> None:
    context = seen_by_a_policy(CONTEXT)
    assert (context.current_num_replicas, context.target_num_replicas, context.running_replicas) == (2, 3, ["a"])
    assert (context.total_num_requests, context.total_queued_requests, context.total_running_requests) == (10, 4, 6)
    assert (context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas) == (1, 8)
    assert (context.policy_state, context.current_time, context.config.max_replicas) == ({"x": 1}, 5.0, 9)


def test_kernels_names_are_there_as_well() -> None:
    context = seen_by_a_policy(CONTEXT)
    assert isinstance(context, AutoscalingContext) and isinstance(context, autoscaling.AutoscalingContext)
    for each in dataclasses.fields(CONTEXT):
        assert getattr(context, each.name) == getattr(CONTEXT, each.name)
    assert autoscaling.default_policy(context) == autoscaling.default_policy(CONTEXT)


def test_a_name_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'total_requests'; a policy's context has .* total_num_req"):
        seen_by_a_policy(CONTEXT).total_requests  # noqa: B018 - it is what raises


def test_the_wrapper_is_an_entry_point_that_serve_finds() -> None:
    (found,) = entry_points(group="kernel_serve.policy_wrappers", name="ray")
    assert found.load() is with_ray_names
    policy = autoscaling.load_policy(AutoscalingConfig(policy=lambda context: context.total_num_requests))
    assert policy(CONTEXT) == 10


@pytest.fixture
def serve(fresh_ray: None) -> Iterator[ModuleType]:
    with kernel.init(num_cpus=4, log_to_driver=False):
        found = importlib.import_module("ray.serve")
        found.start(http_options={"port": 0})
        yield found
        found.shutdown()


def test_a_policy_of_ray_serve_decides_in_the_controller(serve: ModuleType) -> None:
    assert serve.config.AutoscalingContext is AutoscalingContext

    def one_more(context: Any, most: int) -> tuple[int, dict[str, int]]:
        times = context.policy_state.get("times", 0) + 1
        assert context.total_num_requests == 0 and context.config.max_replicas == 5
        wanted = max(context.capacity_adjusted_min_replicas, context.current_num_replicas + 1)
        return min(wanted, most), {"times": times}

    @serve.deployment(
        autoscaling_config={
            "min_replicas": 1,
            "max_replicas": 5,
            "look_back_period_s": 1,
            "metrics_interval_s": 0.2,
            "upscale_delay_s": 0,
            "policy": {"policy_function": one_more, "policy_kwargs": {"most": 3}},
        }
    )
    class Idle:
        def __call__(self) -> str:
            return "idle"

    serve.run(Idle.bind(), name="idle")

    def grown() -> bool:
        found = serve.status()["applications"]["idle"]["deployments"]["Idle"]
        return bool(found["target_num_replicas"] == 3)

    wait_until(grown, SECONDS, "the number that the policy wants")
