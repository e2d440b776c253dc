"""`ray.serve`: the library, and besides that the modules that Ray's has as attributes."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

import kernel.serve as library

MODULES = {
    "api": "run", "autoscaling_policy": "default_autoscaling_policy", "batching": "batch", "config": "HTTPOptions",
    "exceptions": "RayServeException", "grpc_util": "RayServegRPCContext", "handle": "DeploymentHandle",
    "schema": "ServeDeploySchema",
}  # fmt: skip


@pytest.fixture
def serve(fresh_ray: None) -> ModuleType:
    return importlib.import_module("ray.serve")


@pytest.mark.parametrize("module", MODULES)
def test_its_modules_are_attributes_without_their_import(serve: ModuleType, module: str) -> None:
    assert getattr(getattr(serve, module), MODULES[module]) is not None


def test_a_module_of_the_name_of_a_function_does_not_take_its_place(serve: ModuleType) -> None:
    before = serve.deployment
    module = importlib.import_module("ray.serve.deployment")
    assert module.Deployment is serve.Deployment and issubclass(module.Deployment, library.Deployment)
    assert serve.deployment is before and not isinstance(before, ModuleType)


def test_a_name_that_there_is_not_is_compared_with_those_that_there_are(serve: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'deploymnt'; did you mean 'deployment'\?"):
        serve.deploymnt  # noqa: B018 - it is what raises
