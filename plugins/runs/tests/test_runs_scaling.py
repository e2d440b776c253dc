"""How many workers a run has, what each of them needs, and the placement groups that come of it."""

from __future__ import annotations

from typing import Any

import pytest

import kernel
from kernel_runs import PlacementGroupFactory, ScalingConfig
from kernel_runs.arguments import ArgumentError


class Choice:
    """As a domain of a search space: nothing that settings know."""

    def __repr__(self) -> str:
        return "choice([1, 2])"


def test_without_a_word_there_is_one_worker_of_one_cpu() -> None:
    config = ScalingConfig()
    assert (config.min_workers, config.max_workers) == (1, 1)
    assert config.worker_resources == {"CPU": 1.0} and config.own_resources == {"CPU": 1.0}
    assert config.total_resources == {"CPU": 2.0} and config.worker_bundles() == [{"CPU": 1.0}]
    assert (config.num_cpus_per_worker, config.num_gpus_per_worker) == (1.0, 0.0)
    assert config.additional_resources_per_worker == {}


def test_a_worker_has_what_it_is_given_and_a_gpu_where_it_uses_them() -> None:
    assert ScalingConfig(use_gpu=True).worker_resources == {"GPU": 1.0}
    config = ScalingConfig(
        num_workers=2, use_gpu=True, resources_per_worker={"CPU": 2, "memory": 1e9, "shelf": 0.5, "none": 0},
        accelerator_type="A100", trainer_resources={"cpu": 0},
    )  # fmt: skip
    assert config.worker_resources == {
        "CPU": 2.0, "memory": 1e9, "shelf": 0.5, "GPU": 1.0, "accelerator_type:A100": 0.0001,
    }  # fmt: skip
    assert config.additional_resources_per_worker == {"memory": 1e9, "shelf": 0.5, "accelerator_type:A100": 0.0001}
    assert config.own_resources == {} and config.total_resources["CPU"] == 4.0 and config.total_resources["GPU"] == 2.0
    assert ScalingConfig(resources_per_worker={"num_cpus": 3}).num_cpus_per_worker == 3.0
    assert ScalingConfig(use_gpu=True, resources_per_worker={"num_gpus": 0.5}).num_gpus_per_worker == 0.5


def test_the_number_of_workers_may_be_the_least_and_the_most() -> None:
    config = ScalingConfig(num_workers=(2, 4), trainer_resources={})
    assert (config.min_workers, config.max_workers) == (2, 4)
    assert config == ScalingConfig(num_workers=[2, 4], trainer_resources={})
    assert len(config.worker_bundles()) == 2 and len(config.worker_bundles(3)) == 3
    assert config.total_resources == {"CPU": 2.0}


@pytest.mark.parametrize(
    ("given", "bundles"),
    [
        ({}, [{}, {"CPU": 2.0}]),
        ({"num_workers": 3}, [{}, {"CPU": 2.0}, {"CPU": 1.0}, {"CPU": 1.0}]),
        ({"num_workers": 2, "trainer_resources": {}}, [{}, {"CPU": 1.0}, {"CPU": 1.0}]),
        ({"num_workers": 2, "use_gpu": True}, [{}, {"CPU": 1.0, "GPU": 1.0}, {"GPU": 1.0}]),
        ({"num_workers": 0}, [{}, {"CPU": 1.0}]),
        ({"num_workers": 0, "trainer_resources": {"CPU": 0}}, [{}]),
    ],
)
def test_a_trial_that_looks_after_workers_has_bundles_for_them(given: dict[str, Any], bundles: list[Any]) -> None:
    factory = ScalingConfig(**given, placement_strategy="SPREAD").as_placement_group_factory()
    assert factory.bundles() == bundles and factory.strategy == "SPREAD"


@pytest.mark.parametrize(
    "given",
    [
        {"num_workers": 3, "use_gpu": True, "resources_per_worker": {"CPU": 2.0, "GPU": 1.0}},
        {"num_workers": 2, "trainer_resources": {"CPU": 4.0}},
        {"num_workers": 2, "trainer_resources": {}, "placement_strategy": "STRICT_PACK"},
    ],
)
def test_bundles_tell_what_they_are_of(given: dict[str, Any]) -> None:
    config = ScalingConfig(**given)
    again = ScalingConfig.from_placement_group_factory(config.as_placement_group_factory())
    assert again.as_placement_group_factory() == config.as_placement_group_factory()
    assert (again.num_workers, again.use_gpu) == (config.num_workers, config.use_gpu)
    assert again.own_resources == config.own_resources


def test_a_single_worker_gets_all() -> None:
    again = ScalingConfig.from_placement_group_factory(PlacementGroupFactory([{}, {"CPU": 3.0}]))
    assert (again.num_workers, again.worker_resources, again.own_resources) == (1, {"CPU": 3.0}, {})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_workers": -1}, "num_workers is -1, but must be a whole number, at least 0, or two of them"),
        ({"num_workers": 1.5}, "num_workers is 1.5"),
        ({"num_workers": "2"}, "num_workers is '2'"),
        ({"num_workers": True}, "num_workers is True"),
        ({"num_workers": None}, "num_workers is None"),
        ({"num_workers": (0, 2)}, r"num_workers is \(0, 2\)"),
        ({"num_workers": (3, 2)}, r"num_workers is \(3, 2\)"),
        ({"num_workers": (1, 2, 3)}, r"num_workers is \(1, 2, 3\)"),
        ({"use_gpu": 1}, "use_gpu is 1, but must be True or False"),
        (
            {"placement_strategy": "TIGHT"},
            "placement_strategy is 'TIGHT', but must be one of PACK, SPREAD, STRICT",
        ),
        ({"resources_per_worker": 2}, r"resources_per_worker is 2, but must be a dict such as \{'CPU': 2"),
        ({"resources_per_worker": {"CPU": -1}}, "resources_per_worker asks for -1 CPU: it is a number of at least 0"),
        ({"trainer_resources": {"CPU": "1"}}, "trainer_resources asks for '1' CPU"),
        ({"trainer_resources": {"CPU": float("nan")}}, "trainer_resources asks for nan CPU"),
        ({"resources_per_worker": {"GPU": 1}}, "asks for 1 GPU, but use_gpu is False: say use_gpu=True"),
        ({"use_gpu": True, "resources_per_worker": {"GPU": 0}}, "use_gpu is True, but resources_per_worker asks for 0"),
    ],
)
def test_what_can_not_be_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        ScalingConfig(**given)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"num_workers": Choice()}, "num_workers"),
        ({"num_workers": {"grid_search": [1, 2]}}, "num_workers"),
        ({"use_gpu": Choice()}, "use_gpu"),
        ({"resources_per_worker": {"grid_search": [{"CPU": 1}]}}, "resources_per_worker"),
        ({"resources_per_worker": {"CPU": Choice()}}, "resources_per_worker"),
        ({"trainer_resources": Choice()}, "trainer_resources"),
        ({"placement_strategy": Choice()}, "placement_strategy"),
    ],
)
def test_a_search_may_choose_any_field_and_amounts_are_known_then(given: dict[str, Any], name: str) -> None:
    config = ScalingConfig(**given)
    with pytest.raises(ArgumentError, match=f"{name} is .*, which a search has not chosen from yet"):
        config.as_placement_group_factory()


def test_a_placement_group_is_made_of_it() -> None:
    kernel.shutdown()
    config = ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}, trainer_resources={})
    with kernel.init(num_cpus=1, log_to_driver=False):
        group = kernel.placement_group(config.worker_bundles(), strategy=config.placement_strategy)
        kernel.get(group.ready(), timeout=120)
        assert kernel.placement_group_table(group)["state"] == "CREATED"
        kernel.remove_placement_group(group)
