"""The example programs: each runs, cut short, and what is particular about it is so."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs.games.combination_lock import CombinationLock
from kernel_rllib.envs.games.correlated_actions import CorrelatedActionsEnv
from kernel_rllib.envs.games.windy_maze import HIGH, HierarchicalWindyMazeEnv, WindyMazeEnv
from kernel_rllib.errors import ConfigError
from kernel_rllib.examples import (
    autoregressive_action_dist,
    curriculum_learning,
    env_with_subprocess,
    hierarchical_training,
    multi_agent_two_trainers,
    shared_layers,
)
from kernel_rllib.examples import rollout_worker_custom_workflow as workflow
from kernel_rllib.examples.autoregressive_action_model import AutoregressiveActionModel
from kernel_rllib.learners.shared_parameters import SharedParameters


@pytest.mark.parametrize(("program", "reward", "iterations"), [
    (autoregressive_action_dist, 150, 8),
    (curriculum_learning, 1.5, 12),
    (env_with_subprocess, 7.0, 15),
    (hierarchical_training, -15, 6),
    (multi_agent_two_trainers, 20, 3),
    (shared_layers, 130, 12),
])  # fmt: skip
def test_it_begins_to_learn(program: Any, reward: float, iterations: int, capsys: Any) -> None:
    words = ["--seed", "1", "--stop-iters", str(iterations), "--stop-reward", str(reward), "--as-test"]
    assert program.main(words) >= reward
    assert capsys.readouterr().out


def test_a_flat_agent_goes_through_the_same_maze() -> None:
    assert hierarchical_training.main(["--flat", "--stop-iters", "1", "--seed", "1"]) <= 100


def test_goals_are_pursued_by_an_agent_each_whose_part_ends_with_the_goal() -> None:
    env = HierarchicalWindyMazeEnv()
    seen, _ = env.reset(seed=1)
    assert list(seen) == [HIGH] and env.get_action_space(HIGH) == spaces.Discrete(4)
    for goal in (1, 2):
        seen, *_ = env.step({HIGH: goal})
        (agent,) = seen
        assert agent == f"low_level_{goal}" and seen[agent][1] == goal
        for left in reversed(range(25)):
            before = env.flat.place
            wind = env.flat.wind
            seen, rewards, terminateds, truncateds, _ = env.step({agent: 1})
            moved = env.flat.place != before
            assert rewards[agent] == (0 if not moved else 1 if wind == goal else -1)
            assert terminateds.get(agent, False) == (left == 0) and not truncateds["__all__"]
        assert set(seen) == {agent, HIGH} and rewards[HIGH] == 0
    assert env.get_observation_space(agent).contains(seen[agent])


def test_the_maze_is_left_by_drifting_right_down_and_left() -> None:
    env = WindyMazeEnv()
    env.reset(seed=2)
    arrived = is_late = False
    row_of = {1: lambda place: place[1] < 7 and place[0] == 1, 2: lambda place: place[0] < 6, 3: lambda place: True}
    while not (arrived or is_late):
        direction = next(each for each, holds in row_of.items() if holds(env.place))
        _, reward, arrived, is_late, _ = env.step(env.wind == direction)
    assert arrived and reward == 100


def test_both_policies_have_the_same_first_layers_before_and_after_learning() -> None:
    algorithm = shared_layers.make_config(seed=1).build()
    learners = algorithm.learners

    def layers(name: str) -> list[bytes]:
        found = [learner.module.table.views(learner.weights) for learner in learners.values()]
        return [views[name].tobytes() for views in found]

    begins = layers("shared/0/weight")
    algorithm.train()
    ends = layers("shared/0/weight")
    assert begins[0] == begins[1] != ends[0] == ends[1]
    heads = [name for name in learners["policy_0"].module.table.shapes() if not name.startswith("shared")]
    assert all(len(set(layers(name))) == 2 for name in heads if name.endswith("weight"))
    algorithm.stop()


def test_what_not_all_modules_have_can_not_be_shared() -> None:
    algorithm = shared_layers.make_config(seed=1).build()
    with pytest.raises(ConfigError, match="the parameters body are to be shared by policy_0, policy_1, but 'po"):
        SharedParameters(algorithm.learners, ("body",))
    algorithm.stop()


def test_a_lock_gets_a_digit_more_when_it_is_opened_often_enough() -> None:
    env = CombinationLock({"digits": 3})
    enough = [3 * curriculum_learning.ENOUGH + by for by in (-0.1, 0.1)]
    assert [curriculum_learning.next_task({"episode_reward_mean": mean}, env, None) for mean in enough] == [3, 4]
    env.set_task(2)
    env.reset(seed=1)
    found = [env.step(digit) for digit in env._right[:2]]
    assert [step[1] for step in found] == [0.0, 2.0] and found[-1][2]
    env.reset()
    assert env.step((env._right[0] + 1) % 3)[2] and all(1 <= task <= 15 for task in env.sample_tasks(5))


def test_correlated_actions_are_worth_200_at_most() -> None:
    env = CorrelatedActionsEnv()
    bit, _ = env.reset(seed=1)
    total, ended = 0.0, False
    while not ended:
        bit, reward, ended, _, _ = env.step((bit, bit))
        total += reward
    assert total == 200


def test_the_model_takes_two_actions_of_two_alone() -> None:
    with pytest.raises(ValueError, match=r"This model only supports the \[2, 2\] action space"):
        AutoregressiveActionModel(spaces.Discrete(2), spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]))


@pytest.mark.usefixtures("session")
def test_processes_of_environments_end_with_the_run() -> None:
    algorithm = (
        env_with_subprocess.make_config(seed=1).env_runners(num_env_runners=1, num_cpus_per_env_runner=0).build()
    )
    algorithm.train()
    found = algorithm.workers.foreach_worker(lambda worker: worker.foreach_env(lambda env: env.unwrapped.process_id))
    numbers = [number for each in found for number in each or ()]
    assert numbers and all(Path(f"/proc/{number}").exists() for number in numbers)
    algorithm.stop()
    _until_gone(numbers)


def _until_gone(numbers: list[int]) -> None:
    """Wait for processes that are ending."""
    for number in numbers:
        try:
            descriptor = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], 30)[0], f"process {number} still runs"
        finally:
            os.close(descriptor)


def test_a_loop_of_ones_own_learns_from_a_worker_here() -> None:
    workers = workflow.make_workers(0, seed=1, steps=250)
    means = [workflow.train_once(workers) for _ in range(20)]
    assert np.mean(means[-5:]) > 1.5 * np.mean(means[:5])


@pytest.mark.usefixtures("session")
def test_a_loop_of_ones_own_has_workers_in_actors(capsys: Any) -> None:
    workflow.main(["--seed", "1", "--stop-iters", "2"])
    assert capsys.readouterr().out.count("mean return") == 2
