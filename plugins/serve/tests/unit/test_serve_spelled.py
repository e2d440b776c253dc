"""Settings as objects by the names of programs that are brought here, and names that there are not."""

from __future__ import annotations

from typing import Any

import kernel_serve
import pytest
from kernel_serve import settings
from kernel_serve.autoscaling import AutoscalingContext
from kernel_serve.errors import DeploymentError
from kernel_serve.spelled import AutoscalingConfig, AutoscalingPolicy, HTTPOptions


def test_other_names_make_the_same_settings() -> None:
    policy = AutoscalingPolicy("m:f", {"a": 1})
    found = AutoscalingConfig(max_replicas=4, target_num_ongoing_requests_per_replica=3, policy=policy)
    assert found == settings.AutoscalingConfig(
        max_replicas=4, target_ongoing_requests=3, policy="m:f", policy_arguments={"a": 1}
    )
    unsaid = {"upscaling_factor": None, "upscale_smoothing_factor": None, "smoothing_factor": 0.5}
    assert AutoscalingConfig(**unsaid) == settings.AutoscalingConfig(upscaling_factor=0.5, downscaling_factor=0.5)
    default = AutoscalingPolicy(policy_function="ray.serve.autoscaling_policy:default_autoscaling_policy")
    assert AutoscalingConfig(policy=default) == settings.AutoscalingConfig()
    http = HTTPOptions(port=1, num_cpus=0, location=None, root_url="", middlewares=[])
    assert http == settings.HTTPOptions(port=1)


def test_a_policy_finds_its_context_by_the_names_that_it_knows() -> None:
    context = AutoscalingContext(
        settings.AutoscalingConfig(max_replicas=9), now=5.0, current_target=3, ready=2, queued=4.0, ongoing=6.0,
        min_replicas=1, max_replicas=8, replicas={"a": 2.0}, state={"x": 1},
    )  # fmt: skip
    assert (context.current_num_replicas, context.target_num_replicas, context.running_replicas) == (2, 3, ["a"])
    assert (context.total_num_requests, context.total_queued_requests, context.total_running_requests) == (10, 4, 6)
    assert (context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas) == (1, 8)
    assert (context.policy_state, context.current_time, context.config.max_replicas) == ({"x": 1}, 5.0, 9)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: AutoscalingConfig(aggregation_function="max"), "AutoscalingConfig: aggregation_function: numbers are"),
        (lambda: AutoscalingConfig(min_replica=1), "AutoscalingConfig has no setting 'min_replica'; did you mean"),
        (lambda: HTTPOptions(location="HeadOnly"), r"no setting 'location': say serve.start\(proxy_location=...\)"),
        (lambda: HTTPOptions(host=None), r'host of HTTPOptions is None: say serve.start\(proxy_location="Disabled"\)'),
        (lambda: HTTPOptions(prot=1), "HTTPOptions has no setting 'prot'; did you mean 'port'"),
    ],
)
def test_what_is_not_the_same_is_refused(make: Any, expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        make()


def test_the_nearest_name_is_said() -> None:
    with pytest.raises(AttributeError, match="'kernel_serve' has no attribute 'deploymnt'; did you mean 'deployment'"):
        kernel_serve.deploymnt  # noqa: B018
