"""Settings of runs under the names of the first trainers, and a tuner that is given them as a dict."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import warnings
from types import ModuleType
from typing import Any

import pytest

from kernel import runs
from kernel import tune as library
from kernel.runs.arguments import ArgumentError


@pytest.fixture
def train(fresh_ray: None) -> ModuleType:
    return importlib.import_module("ray.train")


def test_the_names_of_the_first_trainers(train: ModuleType) -> None:
    with pytest.warns(DeprecationWarning) as warned:
        config = train.ScalingConfig(num_actors=2, gpus_per_actor=0, cpus_per_actor=2)
    assert config == train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2, "GPU": 0})
    assert [str(each.message) for each in warned] == [
        "num_actors of ScalingConfig is an old name; use num_workers",
        "gpus_per_actor of ScalingConfig is an old name; use resources_per_worker={'GPU': ...}",
        "cpus_per_actor of ScalingConfig is an old name; use resources_per_worker={'CPU': ...}",
    ]
    assert {each.filename for each in warned} == {__file__}
    with pytest.warns(DeprecationWarning, match="gpus_per_actor"):
        config = train.ScalingConfig(gpus_per_actor=0.5, resources_per_worker={"CPU": 3})
    assert config.use_gpu is True and config.worker_resources == {"CPU": 3.0, "GPU": 0.5}
    again = train.ScalingConfig.from_placement_group_factory(config.as_placement_group_factory())
    assert type(again) is train.ScalingConfig and again.num_workers == 1


def test_restarts_of_actors_are_failures_of_the_run(train: ModuleType) -> None:
    expected = "^max_actor_restarts of RunConfig is an old name; use failure_config=FailureConfig"
    with pytest.warns(DeprecationWarning, match=expected) as warned:
        config = train.RunConfig(name="a", max_actor_restarts=1)
    assert warned[0].filename == __file__
    assert config == train.RunConfig("a", failure_config=train.FailureConfig(1)) and isinstance(config, runs.RunConfig)
    with pytest.raises(ArgumentError, match="max_actor_restarts and failure_config: give the latter only"):
        train.RunConfig(max_actor_restarts=1, failure_config=train.FailureConfig(2))


def test_they_are_dataclasses_all_the_same(train: ModuleType) -> None:
    for kind, given in ((train.RunConfig, {"name": "a"}), (train.ScalingConfig, {"num_workers": 2})):
        config = kind(**given)
        assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config) == dataclasses.replace(config)
        assert {*given} < {*inspect.signature(kind).parameters} and repr(config).startswith(f"{kind.__name__}(")
        with pytest.raises(ArgumentError, match=f"^{kind.__name__} has no argument 'nam'"):
            kind(nam=1)


def test_all_modules_have_the_same(train: ModuleType) -> None:
    air, tune = importlib.import_module("ray.air"), importlib.import_module("ray.tune")
    assert air.RunConfig is air.config.RunConfig is tune.RunConfig is train.RunConfig
    assert air.ScalingConfig is air.config.ScalingConfig is train.ScalingConfig
    assert importlib.import_module("ray.tune.tuner").Tuner is tune.Tuner and issubclass(tune.Tuner, library.Tuner)


def test_a_tuner_takes_them_in_a_dict(train: ModuleType) -> None:
    tuner = importlib.import_module("ray.tune").Tuner

    def nothing(config: dict[str, Any]) -> None: ...

    with pytest.warns(DeprecationWarning, match="max_actor_restarts of RunConfig"):
        made = tuner(nothing, run_config={"max_actor_restarts": 3}, name="a")
    assert made._run.failure_config.max_failures == 3 and made._run.name == "a"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tuner(nothing, run_config=library.RunConfig("b"))._run.name == tuner(nothing, name="b")._run.name == "b"
    with pytest.raises(TypeError, match="Tuner.. needs a trainable"):
        tuner()
