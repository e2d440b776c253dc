"""Configurations as objects, for programs that know Ray Serve's schemas: views of what files say."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest
from kernel_compat_ray.serve.schema import (
    DeploymentSchema,
    Details,
    HTTPOptionsSchema,
    ServeApplicationSchema,
    ServeDeploySchema,
    gRPCOptionsSchema,
)

from kernel.serve import settings
from kernel.serve.config.reading import read, read_values
from kernel.serve.errors import DeploymentError

GIVEN: dict[str, Any] = {
    "proxy_location": "HeadOnly",
    "http_options": {"port": 8123, "keep_alive_timeout": 5},
    "applications": [
        {
            "name": "shop",
            "import_path": "shop:app",
            "route_prefix": "/shop",
            "deployments": [{"name": "Till", "num_replicas": 2, "ray_actor_options": {"num_cpus": 0.5}}],
        }
    ],
}


class Where(str, Enum):
    HEAD = "HeadOnly"


def test_what_was_said_comes_back_and_can_be_read_as_a_file() -> None:
    schema = ServeDeploySchema.parse_obj(GIVEN)
    assert schema.dict(exclude_unset=True) == GIVEN == ServeDeploySchema(**GIVEN).model_dump(exclude_unset=True)
    assert read(schema.json(exclude_unset=True)).data == read(json.dumps(GIVEN)).data
    assert ServeDeploySchema(**{**GIVEN, "proxy_location": Where.HEAD}).dict(exclude_unset=True) == GIVEN


def test_attributes_are_what_was_said_and_else_what_is_so_by_default() -> None:
    schema = ServeDeploySchema(**GIVEN)
    (app,) = schema.applications
    (till,) = app.deployments
    assert type(app) is ServeApplicationSchema and type(till) is DeploymentSchema
    assert (schema.proxy_location, schema.http_options.port, app.name, app.args) == ("HeadOnly", 8123, "shop", {})
    assert schema.http_options.keep_alive_timeout_s == schema.http_options.keep_alive_timeout == 5
    assert (till.name, till.num_replicas, till.ray_actor_options) == ("Till", 2, {"num_cpus": 0.5})
    default = settings.DeploymentSettings()
    assert till.max_ongoing_requests == default.max_ongoing_requests and till.autoscaling_config is None
    assert HTTPOptionsSchema().port == settings.HTTPOptions().port
    assert schema.grpc_options.port == settings.GRPCOptions().port == gRPCOptionsSchema().port
    assert ServeApplicationSchema(import_path="m:app").route_prefix == "/"


def test_all_of_it_can_be_said_again() -> None:
    schema = ServeDeploySchema(**GIVEN)
    whole = schema.dict(exclude_none=True)
    assert ServeDeploySchema(**whole).dict(exclude_none=True) == whole
    assert whole["applications"][0]["deployments"][0]["max_queued_requests"] == -1
    assert read_values(whole, "all of it").applications[0].name == "shop"
    scaled = DeploymentSchema(name="Till", autoscaling_config=settings.AutoscalingConfig(max_replicas=3))
    assert scaled.dict(exclude_unset=True) == {"name": "Till", "autoscaling_config": {"max_replicas": 3}}
    assert scaled.autoscaling_config.max_replicas == 3 and scaled.num_replicas is None


def test_it_can_be_changed_compared_and_copied() -> None:
    schema, other = ServeDeploySchema(**GIVEN), ServeDeploySchema(**GIVEN)
    assert schema == other == copy.deepcopy(schema) == pickle.loads(pickle.dumps(schema))
    schema.applications[0].deployments[0].num_replicas = 7
    schema.http_options.keep_alive_timeout_s = 9
    assert schema != other
    said = schema.dict(exclude_unset=True)
    assert said["applications"][0]["deployments"][0]["num_replicas"] == 7
    assert said["http_options"] == {"port": 8123, "keep_alive_timeout_s": 9}
    assert repr(schema.http_options) == "HTTPOptionsSchema(port=8123, keep_alive_timeout_s=9)"
    with pytest.raises(DeploymentError, match="port is a number"):
        schema.http_options.port = "x"
    assert schema.http_options.port == 8123


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: DeploymentSchema(name="x", num_replica=3),
            r"num_replica: there is no such setting; did you mean 'num",
        ),
        (lambda: ServeApplicationSchema(name="a"), "ServeApplicationSchema: applications.0.: import_path is missing"),
        (lambda: HTTPOptionsSchema(port="x"), "HTTPOptionsSchema: http_options.port: port is a number from 0"),
        (lambda: ServeDeploySchema(applications=[GIVEN["applications"][0]] * 2), "there is another application 'shop'"),
    ],
)
def test_what_can_t_be_is_refused_as_in_a_file(make: Callable[[], Any], expected: str) -> None:
    with pytest.raises(DeploymentError, match=expected):
        make()


def test_a_setting_that_there_is_not_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="'HTTPOptionsSchema' object has no attribute 'prt'; did you mean 'port'"):
        _ = HTTPOptionsSchema().prt


def test_details_are_read_by_attributes_at_all_depths() -> None:
    found = Details.model_validate({"applications": {"shop": {"status": "RUNNING", "replicas": [{"state": "x"}]}}})
    assert found.applications["shop"].status == "RUNNING" and found.applications.shop.replicas[0].state == "x"
    assert found == Details(**found)
