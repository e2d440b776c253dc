"""Declaring deployments, binding them, and the specifications for the controller."""

from __future__ import annotations

import functools
import threading
from typing import Any

import cloudpickle
import pytest
from kernel_serve.api import run as api
from kernel_serve.api.declared import Deployment
from kernel_serve.api.deployment import deployment
from kernel_serve.api.graph import flatten
from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.api.responses import DeploymentResponse
from kernel_serve.api.run import run
from kernel_serve.errors import DeployFailedError, DeploymentError
from kernel_serve.routing.sending import HandleCall
from kernel_serve.settings import AutoscalingConfig

from kernel_spec.errors import SerializationError


@deployment
class Model:
    def __init__(self, rate: float = 1.0, *, parts: object = None) -> None:
        self.rate = rate

    def reconfigure(self, user_config: object) -> None: ...


@deployment(name="shop", num_replicas=2, actor_options={"num_cpus": 0.5})
def front(request: object) -> str:
    return "front"


def test_options_make_another_deployment_and_leave_the_first() -> None:
    other = Model.options(num_replicas=3, max_ongoing_requests=7)
    assert (Model.settings.num_replicas, other.settings.num_replicas) == (1, 3)
    assert front.name == "shop"
    assert front.settings.actor_options == {"num_cpus": 0.5}
    assert front.options(name="x").settings == front.settings


def test_automatic_numbers_of_replicas() -> None:
    automatic = Model.options(num_replicas="auto")
    assert automatic.settings.num_replicas is None
    assert automatic.settings.autoscaling == AutoscalingConfig(min_replicas=1, max_replicas=100)
    some = Model.options(autoscaling_config={"min_replicas": 2, "max_replicas": 5})
    assert some.settings.autoscaling == AutoscalingConfig(min_replicas=2, max_replicas=5)
    assert some.options(num_replicas=4).settings.autoscaling is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"num_replica": 2}, "deployment Model has no setting 'num_replica'; did you mean 'num_replicas'"),
        ({"num_replicas": 2, "autoscaling_config": {}}, "can't both say how many"),
        ({"num_replicas": "many"}, "num_replicas is a number from 0 on, or \"auto\", not 'many'"),
        ({"autoscaling_config": {"max_replica": 2}}, "autoscaling_config has no setting 'max_replica'"),
        ({"autoscaling_config": True}, "autoscaling_config is a mapping or an AutoscalingConfig, not True"),
        ({"autoscaling": {"max_replicas": 2}}, "Model has no setting 'autoscaling'; did you mean 'autoscaling_config'"),
        ({"actor_options": 3}, "deployment Model: actor_options is a mapping of names to values, not 3"),
        ({"actor_options": {"num_cpu": 1}}, "actor_options: an actor has no option 'num_cpu'; did you mean"),
        ({"actor_options": {"num_cpus": "x"}}, "actor_options: num_cpus must be a number of CPUs, zero or more, not"),
        (
            {"placement_group_bundles": "CPU"},
            "Model: placement_group_bundles is a list such as .{'CPU': 1}., not 'C",
        ),
        ({"placement_group_bundles": 5}, "Model: placement_group_bundles is a list such as .{'CPU': 1}., not 5"),
        ({"actor_options": {"name": "x"}}, "Model: actor_options: name of a replica's actor is Serve's own; a deploy"),
        ({"actor_options": {"max_restarts": 3}}, "max_restarts of a replica's actor is Serve's own; a replica that"),
        ({"actor_options": {"num_cpus": float("inf")}}, "actor_options: num_cpus is a finite number, not inf"),
        ({"placement_group_bundles": []}, "Model: placement_group_bundles is a list such as .{'CPU': 1}., not \\[\\]"),
        (
            {"placement_group_bundles": [{"CPU": 1}, {"CPU": 4}], "actor_options": {"num_cpus": 2}},
            "the first of placement_group_bundles, {'CPU': 1}, which does not have .*: {'CPU': 2.0}",
        ),
        ({"placement_group_strategy": "SPREAD"}, "Model: placement_group_strategy='SPREAD' is for placement_group_b"),
        ({"name": 5}, "name of deployment Model is a non-empty text, not 5"),
        ({"name": ""}, "name of deployment Model is a non-empty text, not ''"),
        ({"version": 5}, "version of deployment Model is text, not 5"),
        ({"placement_group_bundles": [{"CPU": "1"}]}, "each of placement_group_bundles is like .'CPU': 1., not"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        Model.options(**options)


def test_none_stands_for_the_default_of_a_setting_of_autoscaling() -> None:
    given = {"max_replicas": 3, "upscale_delay_s": None, "downscale_to_zero_delay_s": None}
    assert Model.options(autoscaling_config=given).settings.autoscaling == AutoscalingConfig(max_replicas=3)


def test_autoscaling_can_be_taken_away_again() -> None:
    fixed = Model.options(autoscaling_config={"max_replicas": 3}).options(autoscaling_config=None)
    assert (fixed.num_replicas, fixed.settings.autoscaling) == (1, None)
    assert Model.options(num_replicas=4).options(autoscaling_config=None).num_replicas == 4


def test_a_deployment_tells_its_settings() -> None:
    assert (front.num_replicas, front.max_ongoing_requests, front.max_queued_requests) == (2, 5, -1)
    assert front.actor_options == {"num_cpus": 0.5}
    assert front.options(logging_config={"encoding": "JSON"}).logging_config == {"encoding": "JSON"}


def test_a_deployment_is_no_base_class() -> None:
    with pytest.raises(DeploymentError, match="deployment Model is no class to derive from: .* Model.func_or_class"):

        class Derived(Model):  # type: ignore[misc]
            pass


def test_what_has_no_name_is_called_by_its_kind() -> None:
    assert deployment(functools.partial(max, 1)).name == "partial"


@pytest.mark.parametrize("unable", [front, deployment(type("Plain", (), {}))])
def test_a_user_config_needs_somebody_to_take_it(unable: Deployment) -> None:
    with pytest.raises(DeploymentError, match=r"has a user_config, but no method reconfigure\(self, user_config\)"):
        flatten(unable.options(user_config={"a": 1}).bind(), "app", None)


def test_run_takes_what_is_bound() -> None:
    with pytest.raises(DeploymentError, match=r"not a Deployment; did you mean serve.run\(Model.bind\(\)\)\?"):
        run(Model)  # type: ignore[arg-type]
    with pytest.raises(DeploymentError, match="not a DeploymentHandle$"):
        run(DeploymentHandle("Model", "app"))  # type: ignore[arg-type]


def test_who_waits_is_told_for_what(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([("DEPLOYING", "Model: 0 of 1 replicas take requests"), ("RUNNING", "")])
    asked: list[float] = []

    def ask(method: str, name: str, statuses: list[str], timeout: float) -> dict[str, str]:
        asked.append(timeout)
        return {**dict(zip(("status", "message"), next(answers), strict=True)), "versions": {}}

    monkeypatch.setattr(api, "ask", ask)
    api.wait_until_running("shop")
    assert asked == [4.0, 4.0]
    (record,) = caplog.records
    assert record.getMessage().startswith("application shop is DEPLOYING")
    assert "Model: 0 of 1 replicas take requests" in str(vars(record))


def test_time_to_wait_is_limited(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(
        api, "ask", lambda *arguments: {"status": "DEPLOYING", "message": "Model: it starts", "versions": {}}
    )
    with pytest.raises(DeployFailedError, match="application shop is DEPLOYING after 0.5 s: Model: it starts"):
        api.wait_until_running("shop", 0.5)
    assert not caplog.records, "the error says it"


def test_arguments_are_checked_where_they_are_bound() -> None:
    with pytest.raises(DeploymentError, match=r"Model.bind\(\): too many positional arguments"):
        Model.bind(1, 2, 3)
    with pytest.raises(DeploymentError, match="deployment shop is a function"):
        front.bind(1)
    with pytest.raises(DeploymentError, match=r"can't be called directly: serve.run\(Model.bind"):
        Model(1)


def test_bound_deployments_become_handles_everywhere_and_are_deployed_once() -> None:
    shared = Model.bind(2.0)
    spec = flatten(Model.bind(1.0, parts={"one": [shared], "two": (shared, Model.bind(3.0))}), "app", "/x/")
    assert [each.name for each in spec.deployments] == ["Model", "Model_1", "Model_2"]
    assert (spec.ingress, spec.route_prefix) == ("Model_2", "/x")
    _, args, kwargs = cloudpickle.loads(spec.deployments[-1].code)
    first, second = DeploymentHandle("Model", "app"), DeploymentHandle("Model_1", "app")
    assert args == (1.0,)
    assert kwargs == {"parts": {"one": [first], "two": (first, second)}}


def test_the_version_changes_with_what_needs_new_replicas_alone() -> None:
    def version(application: object) -> str:
        return flatten(application, "app", None).deployments[0].version  # type: ignore[arg-type]

    plain = version(Model.bind(1.0))
    assert version(Model.bind(1.0)) == plain
    assert version(Model.options(num_replicas=9, user_config={"a": 1}).bind(1.0)) == plain
    assert version(Model.bind(2.0)) != plain
    assert version(Model.options(actor_options={"num_cpus": 2}).bind(1.0)) != plain
    assert version(Model.options(version="7").bind(1.0)) == version(Model.options(version="7").bind(2.0))


def test_what_can_not_travel_is_named() -> None:
    with pytest.raises(SerializationError, match="deployment Model can't be sent to its replicas"):
        flatten(Model.bind(threading.Lock()), "app", None)


@pytest.mark.parametrize("prefix", ["x", "/a/{b}", 3])
def test_bad_prefixes_are_refused(prefix: str) -> None:
    with pytest.raises(DeploymentError, match="a route_prefix is a path that begins with '/'"):
        flatten(Model.bind(), "app", prefix)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timeout_s": -1}, "timeout_s of a handle is a finite number above 0, not -1"),
        ({"timeout_s": 0}, "timeout_s of a handle is a finite number above 0, not 0"),
        ({"timeout_s": "soon"}, "timeout_s of a handle is a finite number above 0, not 'soon'"),
        ({"timeout_s": float("nan")}, "timeout_s of a handle is a finite number above 0, not nan"),
        ({"timeout_s": float("inf")}, "timeout_s of a handle is a finite number above 0, not inf"),
        ({"stream": "yes"}, "stream of a handle is True or False, not 'yes'"),
        ({"retry": 5}, "retry of a handle is True or False, not 5"),
        ({"method_name": 5}, "method_name of a handle is text, not 5"),
        ({"multiplexed_model_id": 5}, "multiplexed_model_id of a handle is text, not 5"),
    ],
)
def test_bad_options_of_handles_are_refused_by_name(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        DeploymentHandle("Model").options(**options)


@pytest.mark.parametrize("given", [float("nan"), float("inf"), "soon"])
def test_a_result_is_not_waited_for_a_time_that_is_none(given: Any) -> None:
    call = HandleCall("app#Model", {"method": "__call__"}, (), {}, None, False)
    with pytest.raises(DeploymentError, match="timeout_s is a number of seconds, or None for any time, not"):
        DeploymentResponse(call).result(given)


@pytest.mark.parametrize("given", [float("nan"), float("inf"), "soon", -1])
def test_an_application_is_not_waited_for_a_time_that_is_none(given: Any) -> None:
    with pytest.raises(DeploymentError, match="timeout_s .*is a number of seconds"):
        run(Model.bind(), timeout_s=given, _local_testing_mode=True)
