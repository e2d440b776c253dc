"""Deployments by the names of Ray Serve: options, configuration files, and deployments that run one by one."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from kernel_compat_ray.serve.deployments import Deployment, deployment, get_deployment, list_deployments
from kernel_compat_ray.serve.setting_names import ALL_NAMES, SETTING_NAMES

import kernel
from kernel import serve
from kernel.serve.api.declared import UNSET
from kernel.serve.config.reading import read
from kernel.serve.errors import DeploymentError, NotServingError
from kernel.serve.settings import AutoscalingConfig

SECONDS = 120.0


@deployment(name="shop", ray_actor_options={"num_cpus": 0.5}, max_concurrent_queries=7)
class Shop:
    def __call__(self, what: str = "") -> str:
        return f"{what}!"


def policy(context: object) -> int:
    return 1


class TestOptions:
    def test_older_names_mean_what_they_meant(self) -> None:
        assert isinstance(Shop, Deployment) and isinstance(Shop, serve.Deployment)
        assert Shop.ray_actor_options == Shop.actor_options == {"num_cpus": 0.5}
        assert Shop.max_ongoing_requests == 7
        assert type(Shop.options(num_replicas=2)) is Deployment

    def test_settings_of_autoscaling_have_other_names_too(self) -> None:
        given = {
            "max_replicas": 3,
            "target_num_ongoing_requests_per_replica": 3,
            "smoothing_factor": 0.5,
            "policy": {"policy_function": policy, "policy_kwargs": {"a": 1}},
        }
        assert Shop.options(autoscaling=given).settings.autoscaling == AutoscalingConfig(
            max_replicas=3, target_ongoing_requests=3, upscaling_factor=0.5, downscaling_factor=0.5, policy=policy,
            policy_arguments={"a": 1},
        )  # fmt: skip

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"max_surge_percent": 10}, "deployment shop: there is no setting 'max_surge_percent': new replicas start"),
            ({"request_router_config": {}}, "no setting 'request_router_config': requests always go to the shorter"),
            ({"init_args": (1,)}, "no setting 'init_args': arguments are given in the code, by bind"),
            ({"autoscaling_config": {"aggregation_function": "max"}}, "autoscaling_config: aggregation_function: numb"),
            ({"num_replica": 1}, "deployment shop has no setting 'num_replica'; did you mean 'num_replicas'"),
        ],
    )
    def test_what_there_is_not_is_refused_with_what_to_do(self, options: dict[str, Any], expected: str) -> None:
        with pytest.raises(DeploymentError, match=expected):
            Shop.options(**options)

    def test_a_setting_that_there_is_not_may_be_none(self) -> None:
        given = {"request_router_config": None, "gang_scheduling_config": None, "init_args": None, "num_replicas": 2}
        assert Shop.options(**given).settings == Shop.options(num_replicas=2).settings

    def test_a_route_and_a_version_are_options(self) -> None:
        other = Shop.options(route_prefix="/there", version="7")
        assert (other.url, other.route_prefix, other.version) == ("/there", "/there", "7")
        assert Shop.url == "/shop" and Shop.route_prefix is UNSET and Shop.options(route_prefix=None).url is None


FILE = """
http_options: {keep_alive_timeout: 30}
applications:
  - import_path: shop.main:app
    logging: {log_level: DEBUG}
    deployments:
      - name: Model
        max_concurrent_queries: 7
        ray_actor_options: {num_cpus: 0.5}
        autoscaling_config:
          target_num_ongoing_requests_per_replica: 3
          smoothing_factor: 0.5
          aggregation_function: mean
          policy: {policy_function: 'shop.policies:mine', policy_kwargs: {busy: 3}}
endpoints:
  - {name: split, route: /v2, traffic: [{app: default}], shadow: [{app: default, share: 0.5}]}
"""


def deployment_file(rest: str) -> str:
    return f"applications:\n  - import_path: m:app\n    deployments:\n      - name: D\n        {rest}\n"


class TestFiles:
    def test_the_names_are_an_entry_point_that_serve_finds(self) -> None:
        (found,) = entry_points(group="kernel_serve.setting_names", name="ray")
        assert found.load() is SETTING_NAMES

    def test_a_file_of_ray_serve_is_read(self) -> None:
        config = read(FILE, "serve.yaml", ALL_NAMES)
        assert config.http_options.keep_alive_timeout_s == 30
        (application,) = config.applications
        assert application.logging_config == {"log_level": "DEBUG"}
        assert application.deployments[0].options == {
            "max_ongoing_requests": 7,
            "actor_options": {"num_cpus": 0.5},
            "autoscaling_config": {
                "target_ongoing_requests": 3,
                "upscaling_factor": 0.5,
                "downscaling_factor": 0.5,
                "policy": "shop.policies:mine",
                "policy_arguments": {"busy": 3},
            },
        }
        (split,) = config.endpoints
        assert (split.prefix, len(split.targets), split.shadows[0].weight) == ("/v2", 1, 0.5)

    @pytest.mark.parametrize(
        "given",
        [
            "upscaling_factor: null, upscale_smoothing_factor: 0.5, smoothing_factor: null",
            "upscale_smoothing_factor: 0.5, upscaling_factor: null",
        ],
    )
    def test_of_two_names_for_a_setting_one_may_have_no_value(self, given: str) -> None:
        text = deployment_file("autoscaling_config: {" + given + "}")
        (application,) = read(text, "serve.yaml", ALL_NAMES).applications
        assert application.deployments[0].options["autoscaling_config"] == {"upscaling_factor": 0.5}

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                deployment_file("autoscaling_config: {aggregation_function: max}"),
                "serve.yaml:5: applications[0].deployments[0].autoscaling_config: aggregation_function: numbers are "
                "always looked at as means",
            ),
            (
                deployment_file("actor_options: {}\n        ray_actor_options: {}"),
                "serve.yaml:6: applications[0].deployments[0].ray_actor_options: this is another name of "
                "applications[0].deployments[0].actor_options, which is there as well",
            ),
            (deployment_file("max_surge_percent: 3"), "max_surge_percent: new replicas start beside the old ones"),
            ("http_options: {num_cpus: 1}", "serve.yaml:1: http_options.num_cpus: proxies hold no CPUs"),
            ("target_capacity: 3", "serve.yaml:1: target_capacity: there is no share of all capacity"),
        ],
    )
    def test_a_mistake_is_named_with_its_place(self, text: str, expected: str) -> None:
        with pytest.raises(DeploymentError) as caught:
            read(text, "serve.yaml", ALL_NAMES)
        assert expected in str(caught.value)


@pytest.fixture
def serving() -> Iterator[None]:
    kernel.init(num_cpus=4, log_to_driver=False)
    yield
    serve.shutdown()
    kernel.shutdown()


def test_one_that_is_looked_up_and_deployed_again_stays_what_it_is(serving: None) -> None:
    environment = {"runtime_env": {"env_vars": {"KERNEL_TEST_WORD": "kept"}}}

    @deployment(ray_actor_options=environment)
    class Kept:
        def __call__(self) -> Any:
            import os

            return os.environ.get("KERNEL_TEST_WORD")

    Kept.deploy()
    found = get_deployment("Kept")
    assert list(list_deployments()) == ["Kept"] and found.url == "/Kept"
    assert found.get_handle().remote().result(SECONDS) == "kept"
    found.options(num_replicas=2).deploy()
    assert get_deployment("Kept").num_replicas == 2
    assert get_deployment("Kept").get_handle(sync=False).remote().result(SECONDS) == "kept"
    found.delete()
    with pytest.raises(NotServingError, match="there is no deployment 'Kept'"):
        get_deployment("Kept")
