"""Names that programs import beside the verbs do what they do in Ray."""

from __future__ import annotations

import threading

import pytest
from kernel_compat_ray import errors, helpers, pickling
from kernel_compat_ray.tune import helpers as tune_helpers

from .test_compat_ray_import import run


def test_a_pickle_that_fails_names_the_culprit() -> None:
    assert pickling.dumps_debug([1, 2])
    with pytest.raises(TypeError, match=r"cannot pickle '_thread.lock' object\nvalue\[1\] is a _thread.lock"):
        pickling.dumps_debug([1, threading.Lock()])


def test_a_key_is_logged_again_when_it_is_forgotten() -> None:
    assert helpers.log_once("a key of this test") and not helpers.log_once("a key of this test")
    helpers.reset_log_once("a key of this test")
    assert helpers.log_once("a key of this test")


def test_dicts_are_merged_in_place() -> None:
    known = {"a": {"b": 1, "c": 2}, "d": {"type": "x", "e": 1}}
    assert tune_helpers.deep_update(known, {"a": {"b": 3}}) is known and known["a"] == {"b": 3, "c": 2}
    with pytest.raises(KeyError, match="unknown key 'new'; known are b, c"):
        tune_helpers.deep_update(known, {"a": {"new": 1}})
    tune_helpers.deep_update(known, {"a": {"new": 1}}, allow_new_subkey_list=["a"])
    tune_helpers.deep_update(known, {"d": {"type": "y"}}, override_all_if_type_changes=["d"])
    assert known == {"a": {"b": 3, "c": 2, "new": 1}, "d": {"type": "y"}}


def test_what_is_slow_is_said() -> None:
    with pytest.warns(RuntimeWarning, match="the `reading` operation took"), tune_helpers.warn_if_slow("reading", -1.0):
        pass
    with tune_helpers.warn_if_slow("reading", 1e9) as quick:
        pass
    assert not quick.too_slow


def test_resources_come_from_json() -> None:
    assert tune_helpers.json_to_resources(None) is None
    assert tune_helpers.json_to_resources('{"cpu": 2}').bundles() == [{"CPU": 2.0}]


def test_an_actor_class_is_no_base() -> None:
    from kernel_compat_ray.decorator import remote

    parent = remote(type("Parent", (), {}))
    with pytest.raises(errors.ActorClassInheritanceException, match="can't inherit from the actor class Parent"):
        exec("class Child(parent): pass", {"parent": parent})


IMPORTS = """
import kernel_compat_ray.install
from ray.actor import ActorClassInheritanceException
from ray.air.constants import TRAINING_ITERATION
from ray.client_builder import client
from ray.cloudpickle import Pickler, dumps_debug, unregister_pickle_by_value
from ray.cluster_utils import AutoscalingCluster
from ray.dag.class_node import ClassNode
from ray.dag.input_node import InputNode
from ray.runtime_env import RuntimeEnv, RuntimeEnvConfig
from ray.tune.schedulers.pbt import PopulationBasedTraining, PopulationBasedTrainingReplay
from ray.tune.search import grid_search
from ray.util.accelerators import GOOGLE_TPU_V4, NVIDIA_TESLA_P4
from ray.util.check_serialize import FailureTuple
from ray.util.collective import gloo_available, nccl_available
from ray.util.helpers import as_completed
print(TRAINING_ITERATION, GOOGLE_TPU_V4, NVIDIA_TESLA_P4, gloo_available())
try:
    AutoscalingCluster()
except NotImplementedError as error:
    print(error)
"""


def test_names_can_be_imported() -> None:
    done = run(IMPORTS)
    assert done.stdout.splitlines() == [
        "training_iteration TPU-V4 P4 True",
        "ray.cluster_utils.AutoscalingCluster is not supported: add and remove nodes with Cluster.add_node and "
        "remove_node",
    ], done.stderr
