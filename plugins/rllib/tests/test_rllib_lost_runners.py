"""What is said where training ends with a lost runner: the error, and of no other call that failed with it."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.errors import RunnersLostError
from kernel_rllib.runners.calls import PatientCalls
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.recovery import Recovery
from kernel_rllib.testing.counting import counting_blueprint
from kernel_rllib.testing.unread_failures import MARK, unread_failures

import kernel

pytestmark = pytest.mark.usefixtures("session")


def made(recovery: Recovery | None = None, **settings: Any) -> RunnerGroup:
    """Return a group of three runners that have parameters."""
    blueprint = counting_blueprint(lstm=5)
    lanes = [(0, 1), (2,), (3,)]
    group = RunnerGroup(blueprint, GroupSettings(lanes, True, options={"num_cpus": 0}, recovery=recovery, **settings))
    group.set_weights(blueprint.module.initial(np.random.default_rng(1)), 0)
    return group


def die(runner: EnvRunner) -> None:
    """End the process of a runner at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def process_of(runner: EnvRunner) -> int:
    """Return the number of the process of a runner."""
    return os.getpid()


def sample(group: RunnerGroup, processes: list[int]) -> None:
    """Ask for two rounds, and wait for one."""
    for _ in range(2):
        group.request(lambda runner: 500)
    kill(processes)
    group.collect()


def call(group: RunnerGroup, processes: list[int]) -> None:
    """Call a function that ends all runners."""
    group.foreach(die)


def call_patiently(group: RunnerGroup, processes: list[int]) -> None:
    """Call a function that ends all runners, as evaluations call."""
    PatientCalls(group)(die)


def call_in_vain(group: RunnerGroup, processes: list[int]) -> None:
    """Let runners take too long for a call, and end while they are waited for by another."""
    assert group.foreach(lambda runner: time.sleep(30), timeout_s=0.1) == []
    kill(processes)
    group.foreach(process_of)


def kill(processes: list[int]) -> None:
    """End processes from outside, while they do something."""
    for pid in processes:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("recovery", [None, "ignore", "recreate"])
@pytest.mark.parametrize("ends", [sample, call, call_patiently, call_in_vain])
def test_nobody_is_told_of_the_calls_that_failed_with_it(
    ends: Callable[[RunnerGroup, list[int]], None], recovery: Recovery | None
) -> None:
    group, before = made(recovery, tolerated_failures=2), len(unread_failures())
    with pytest.raises(RunnersLostError, match="died"):
        ends(group, group.foreach(process_of))
        while True:  # those that take the places of others end as well
            group.foreach(die)
    del group
    gc.collect()  # nobody can ask for what failed any more
    assert unread_failures()[before:] == [MARK]


def test_nobody_is_told_of_what_workers_sent_to_one_that_died() -> None:
    config = DDPPOConfig().environment("CartPole-v1").env_runners(num_env_runners=3, num_cpus_per_env_runner=0)
    config.training(train_batch_size=64, minibatch_size=32, num_epochs=50, model={"fcnet_hiddens": [4]})
    algorithm, before = config.fault_tolerance(restart_failed_env_runners=False).build(), len(unread_failures())
    pids = algorithm.runners.foreach(process_of)
    algorithm.train()
    algorithm.runners.request(lambda index: 64)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(RunnersLostError, match="runner 2 died"):
        algorithm.train()
    assert algorithm.runners.num_healthy_runners == 0, "who waits for it would wait for ever"
    algorithm.stop()
    del algorithm
    gc.collect()
    assert unread_failures()[before:] == [MARK]


def test_nobody_is_told_of_the_other_players_of_trials() -> None:
    config = ESConfig().environment("CartPole-v1").env_runners(num_env_runners=2, num_cpus_per_env_runner=0)
    config.training(episodes_per_batch=400, train_batch_size=1, model={"fcnet_hiddens": [4]})
    algorithm, before = config.fault_tolerance(restart_failed_env_runners=False).build(), len(unread_failures())
    for player in algorithm.population._players.values():
        os.kill(kernel.get(player.handle.process.remote()), signal.SIGKILL)
    with pytest.raises(RunnersLostError, match="died"):
        algorithm.train()
    algorithm.stop()
    del algorithm
    gc.collect()
    assert unread_failures()[before:] == [MARK]
