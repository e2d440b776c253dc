"""`ray.serve.config`: settings as objects by the names of Ray Serve, and what is not the same here."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_compat_ray.serve.settings import AutoscalingConfig, AutoscalingPolicy, HTTPOptions

from kernel.serve import settings
from kernel.serve.errors import DeploymentError


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
