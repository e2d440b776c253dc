"""Runners that ask for more CPUs than there are share them; what is only busy is waited for; results are the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.training import cpu_shares
from kernel_rllib.training.cpu_shares import share_of

import kernel

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture(autouse=True)
def _nobody_was_warned() -> Iterator[None]:
    cpu_shares._warn_once.cache_clear()
    yield


def small(runners: int, **more: Any) -> PPOConfig:
    """Return settings of the quickest training that there is."""
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=runners, num_envs=4, **more)
    config.training(train_batch_size=64, minibatch_size=32, num_epochs=1, model={"fcnet_hiddens": [4]})
    return config.debugging(seed=3)


@pytest.mark.parametrize(
    ("asked", "room", "others", "share"),
    [
        ([1, 1], [2], [], None),
        ([1] * 4, [2], [], 0.5),
        ([1] * 3, [1], [], 0.3333),
        ([1] * 4, [2], [1], 0.25),
        ([1] * 4, [1], [1], 0.0),
        # Each machine has room for one of 2 CPUs; the third runner finds none, though 4 of 6 CPUs would be left.
        ([2] * 3, [3, 3], [], 1.5),
        ([1] * 5, [2, 1], [], 0.5),
        ([2, 0.5, 0.5], [2], [], 1.0),
        ([0.5] * 4, [2], [], None),
        # What is not shared has no room itself: that is said where it is asked for.
        ([1] * 2, [1], [2], None),
        ([1], [], [], 0.0),
    ],
)  # fmt: skip
def test_how_much_each_may_reserve(
    asked: Sequence[float], room: Sequence[float], others: Sequence[float], share: float | None
) -> None:
    assert share_of(asked, room, others) == share


def test_more_runners_than_cpus_learn_the_same_and_one_warning_says_so(caplog: pytest.LogCaptureFixture) -> None:
    alone = small(0).build()
    alone.train()
    config = small(3, custom_resources_per_env_runner={"node:127.0.0.1": 0.01})
    many = config.evaluation(evaluation_num_env_runners=1, evaluation_duration=1).build()
    many.train()
    assert many.learner.weights.tobytes() == alone.learner.weights.tobytes()
    assert many.evaluate()["episodes_this_iter"] == 1
    options = {"num_cpus": 0.5, "num_gpus": 0, "resources": {"node:127.0.0.1": 0.01}}
    assert many.group_settings().options == options
    many.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "the 4 runners of PPO ask for 4 CPUs, and all machines together have 2: runners take turns on them, each "
        "reserves 0.5. What they learn is the same, but slower than with a CPU each. num_cpus_per_env_runner=0.5 says "
        "the same without this warning, and kernel.init(num_cpus=4) that there are as many as they ask for"
    ]


def test_what_is_busy_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    first, second = small(2).build(), small(1).build()
    assert first.train()["num_healthy_workers"] == 2
    asked = second.runners.actors()[0][1].ready.remote()
    assert kernel.wait([asked], timeout=0.2)[0] == []
    first.stop()
    assert kernel.get(asked) == 1 and not caplog.records
    second.stop()


def test_gpus_are_not_shared() -> None:
    algorithm = small(4, num_gpus_per_env_runner=1).build()
    options = algorithm.group_settings().options
    algorithm.stop()
    assert options is not None and (options["num_cpus"], options["num_gpus"]) == (0.5, 1)


def test_players_of_evolution_share_as_well() -> None:
    config = ESConfig().environment("CartPole-v1").env_runners(num_env_runners=3)
    config.training(episodes_per_batch=3, train_batch_size=1, noise_size=25_000, model={"fcnet_hiddens": [4]})
    algorithm = config.build()
    assert algorithm.train()["training_iteration"] == 1
    algorithm.stop()


def test_a_trial_reserves_what_there_is(caplog: pytest.LogCaptureFixture) -> None:
    config = {"num_workers": 4, "evaluation_num_workers": 1}
    for _ in range(2):
        bundles = PPO.default_resource_request(config).bundles()
        assert bundles == [{"CPU": 1}, *[{"CPU": 0.2}] * 5]
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "the 6 processes of a trial of PPO, 5 of them runners, ask for 6 CPUs, and all machines together have 2"
    ]
    assert PPO.default_resource_request({"num_workers": 1}).bundles() == [{"CPU": 1}] * 2
    more = PPO.default_resource_request({"num_workers": 1, "num_cpus_for_driver": 3})
    assert more.bundles() == [{"CPU": 3}, {"CPU": 1}], "tune says that it fits on no machine"


def test_what_an_actor_holds_is_not_shared_and_a_group_is_all_there_is() -> None:
    ask = kernel.remote(num_cpus=1)(cpu_shares.share_here)
    group = kernel.placement_group([{"CPU": 1}, {"CPU": 0.5}])
    inside = kernel.PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
    beside = kernel.PlacementGroupSchedulingStrategy(group, 0)
    found = [kernel.get(ask.options(scheduling_strategy=where).remote([1] * 4, "all")) for where in (inside, beside)]
    kernel.remove_placement_group(group)
    assert [*found, kernel.get(ask.remote([1] * 4, "all"))] == [0.125, 0.25, 0.25]
