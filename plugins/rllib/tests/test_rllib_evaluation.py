"""Evaluation: exact numbers of whole episodes, by the parameters of now, in runners and by settings of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.evaluation.evaluator import Evaluator
from kernel_rllib.runners.group import GroupSettings, RunnerGroup
from kernel_rllib.testing.counting import counting_blueprint


def evaluator(lanes: int, length: int = 5) -> tuple[Evaluator, np.ndarray]:
    """Return what plays episodes of this length in some lanes, and parameters for it."""
    blueprint = counting_blueprint({"length": length})
    made = Evaluator(RunnerGroup(blueprint, GroupSettings([tuple(range(lanes))])), lanes)
    return made, blueprint.module.initial(np.random.default_rng(0))


@pytest.mark.parametrize(("lanes", "duration"), [(1, 3), (4, 10), (4, 2)])
def test_exactly_so_many_episodes_are_played_whole(lanes: int, duration: int) -> None:
    made, weights = evaluator(lanes)
    for _ in range(2):
        episodes = made.play(weights, 1, duration, "episodes")
        assert [episode.length for episode in episodes] == [5] * duration
        assert all(episode.total_reward == 5.0 for episode in episodes)


def test_steps_are_shared_by_lanes() -> None:
    made, weights = evaluator(4)
    assert len(made.play(weights, 1, 80, "timesteps")) == 16  # 20 steps in each of 4 lanes, 5 an episode


def config(**settings: Any) -> PPOConfig:
    """Return small settings that evaluate."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs=2, num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=64, num_epochs=1, model={"fcnet_hiddens": [8]})
        .evaluation(evaluation_duration=3, **settings)
        .debugging(seed=0)
    )


def test_an_evaluation_comes_with_every_second_iteration() -> None:
    algorithm = PPO(config(evaluation_interval=2))
    results = [algorithm.train() for _ in range(4)]
    assert ["evaluation" in result for result in results] == [False, True, False, True]
    assert results[1]["evaluation"]["episodes_this_iter"] == 3
    assert results[1]["evaluation"]["env_runners"]["num_episodes"] == 3


def test_evaluating_changes_nothing_in_training() -> None:
    plain, evaluated = PPO(config()), PPO(config(evaluation_interval=1))
    for _ in range(2):
        plain.train()
        evaluated.train()
    assert plain.learner.weights.tobytes() == evaluated.learner.weights.tobytes()


def test_without_exploration_all_evaluations_of_one_seed_are_alike() -> None:
    algorithms = [PPO(config(evaluation_config={"explore": False})) for _ in range(2)]
    returns = [algorithm.evaluate()["hist_stats"]["episode_reward"] for algorithm in algorithms]
    assert returns[0] == returns[1]
    assert algorithms[0].evaluate()["evaluation"]["hist_stats"]["episode_reward"] != returns[0]


@pytest.mark.usefixtures("session")
def test_evaluations_have_runners_of_their_own() -> None:
    algorithm = PPO(config(evaluation_num_env_runners=2, evaluation_config={"num_cpus_per_env_runner": 0}))
    assert algorithm.evaluate()["episodes_this_iter"] == 3
    assert algorithm.runners.num_healthy_runners == 0
    algorithm.stop()
