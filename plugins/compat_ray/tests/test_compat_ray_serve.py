"""`ray.serve`: the library, and besides that the modules that Ray's has as attributes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from kernel_compat_ray import finder

import kernel.serve as library

MODULES = {
    "api": "run", "autoscaling_policy": "default_autoscaling_policy", "batching": "batch", "config": "HTTPOptions",
    "exceptions": "RayServeException", "grpc_util": "RayServegRPCContext", "handle": "DeploymentHandle",
    "schema": "ServeDeploySchema",
}  # fmt: skip


@pytest.fixture
def serve() -> Iterator[ModuleType]:
    there = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "ray"}
    for name in there:
        del sys.modules[name]
    finder.install_finder()
    yield importlib.import_module("ray.serve")
    finder.remove_finder()
    sys.modules.update(there)


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
