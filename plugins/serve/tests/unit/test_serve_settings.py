"""Settings say what is wrong with them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings, GRPCOptions, HTTPOptions, checked


def test_an_unknown_setting_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(DeploymentError, match="has no setting 'min_replica'; did you mean 'min_replicas'"):
        checked(AutoscalingConfig, {"min_replica": 1})


def test_bounds_of_autoscaling_must_fit() -> None:
    with pytest.raises(DeploymentError, match=r"max_replicas \(2\) must be at least min_replicas \(3\)"):
        AutoscalingConfig(min_replicas=3, max_replicas=2)
    with pytest.raises(DeploymentError, match=r"initial_replicas \(9\) must be between"):
        AutoscalingConfig(min_replicas=1, max_replicas=2, initial_replicas=9)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("num_replicas", -1, "num_replicas is a number from 0 on"),
        ("max_ongoing_requests", 0, "max_ongoing_requests is a whole number from 1 on, not 0"),
        ("max_ongoing_requests", "5", "max_ongoing_requests is a whole number from 1 on, not '5'"),
        ("max_ongoing_requests", 2.5, "max_ongoing_requests is a whole number from 1 on, not 2.5"),
        ("max_queued_requests", "many", "max_queued_requests is a number from 0 on, or -1"),
        ("max_replicas_per_node", 0, "max_replicas_per_node is a whole number from 1 on, not 0"),
        ("max_constructor_retry_count", 0, "max_constructor_retry_count is a whole number from 1 on, not 0"),
        ("request_timeout_s", "soon", "request_timeout_s is a finite number above 0, not 'soon'"),
        ("health_check_period_s", "soon", "health_check_period_s is a finite number above 0, not 'soon'"),
        ("rolling_update_percentage", "all", "rolling_update_percentage is a share"),
        ("max_queued_requests", -2, "max_queued_requests is a number from 0 on, or -1"),
        ("rolling_update_percentage", 1.5, "rolling_update_percentage is a share"),
        ("request_timeout_s", math.inf, "request_timeout_s is a finite number above 0, not inf"),
        ("health_check_timeout_s", math.inf, "health_check_timeout_s is a finite number above 0, not inf"),
        (
            "graceful_shutdown_wait_loop_s",
            math.inf,
            "graceful_shutdown_wait_loop_s is a finite number from 0",
        ),
        ("placement_group_bundles", ({"CPU": -1},), r"each of placement_group_bundles is like \{'CPU': 1\}"),
        ("placement_group_bundles", ({},), r"each of placement_group_bundles is like \{'CPU': 1\}, not \{\}"),
        ("placement_group_strategy", "pack", "placement_group_strategy is one of PACK, SPREAD, STRICT_PACK, STRICT_S"),
        ("logging_config", {"logs_dir": 5}, "logs_dir is the path of a directory, not 5"),
        ("logging_config", {"enable_access_log": "yes"}, "enable_access_log is True or False, not 'yes'"),
        ("logging_config", {"additional_log_standard_attrs": 5}, "additional_log_standard_attrs is a list of names"),
        ("graceful_shutdown_timeout_s", -1, "graceful_shutdown_timeout_s is a finite number from 0 on, not -1"),
    ],
)
def test_a_bad_value_is_refused_by_name(setting: str, value: float, expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        DeploymentSettings(**{setting: value})


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (AutoscalingConfig, {"min_replicas": 1.5}, "min_replicas is a whole number from 0 on, not 1.5"),
        (AutoscalingConfig, {"initial_replicas": "two"}, "initial_replicas is a whole number from 0 on, not 'two'"),
        (
            AutoscalingConfig,
            {"downscale_to_zero_delay_s": "x"},
            "downscale_to_zero_delay_s is a finite number from 0",
        ),
        (HTTPOptions, {"request_timeout_s": "x"}, "request_timeout_s is a finite number above 0, not 'x'"),
        (HTTPOptions, {"maximum_body_bytes": "1 GB"}, "maximum_body_bytes is a whole number from 1 on, not '1 GB'"),
        (HTTPOptions, {"keep_alive_timeout_s": None}, "keep_alive_timeout_s is a finite number above 0, not None"),
        (HTTPOptions, {"ssl_keyfile": "key.pem"}, "ssl_keyfile is given, but no ssl_certfile"),
        (
            AutoscalingConfig,
            {"target_ongoing_requests": math.inf},
            "target_ongoing_requests is a finite number",
        ),
        (HTTPOptions, {"host": 5}, "host is an address such as"),
        (HTTPOptions, {"host": ""}, "host is an address such as"),
        (HTTPOptions, {"root_path": "app"}, 'root_path is a path such as "/app", or "", not \'app\''),
        (HTTPOptions, {"access_log": 5}, "access_log is True, False, or the path of a directory, not 5"),
        (HTTPOptions, {"ssl_certfile": 5}, "ssl_certfile is the path of a file, not 5"),
        (HTTPOptions, {"middlewares": [5]}, "middlewares is a list of starlette's Middleware"),
        (GRPCOptions, {"grpc_servicer_functions": [5]}, "grpc_servicer_functions is a list of import paths, not"),
        (GRPCOptions, {"enable_reflection": "no"}, "enable_reflection is True or False, not 'no'"),
        (GRPCOptions, {"app_dir": 5}, "app_dir is text, not 5"),
        (GRPCOptions, {"grpc_servicer_functions": "m:f"}, "grpc_servicer_functions is a list of import paths, not the"),
    ],
)
def test_other_settings_are_checked_as_well(kind: type, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        kind(**given)


def test_a_port_must_be_one() -> None:
    with pytest.raises(DeploymentError, match="port is a number from 0"):
        HTTPOptions(port=70000)
