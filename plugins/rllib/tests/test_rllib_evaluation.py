"""Evaluation: exact numbers of whole episodes, by the parameters of now, in runners and by settings of its own."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.errors import ConfigError, EvaluationError
from kernel_rllib.evaluation.evaluator import Evaluator
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.testing.counting import Counting, counting_blueprint


def evaluator(lanes: int, length: int = 5) -> tuple[Evaluator, np.ndarray]:
    """Return what plays episodes of this length in some lanes, and parameters for it."""
    blueprint = counting_blueprint({"length": length})
    made = Evaluator(RunnerGroup(blueprint, GroupSettings([tuple(range(lanes))])), lanes)
    return made, blueprint.module.initial(np.random.default_rng(0))


@pytest.mark.parametrize(("lanes", "duration"), [(1, 3), (4, 10), (4, 2)])
def test_exactly_so_many_episodes_are_played_whole(lanes: int, duration: int) -> None:
    made, weights = evaluator(lanes)
    for _ in range(2):
        episodes = made.play(weights, duration, "episodes").episodes
        assert [episode.length for episode in episodes] == [5] * duration
        assert all(episode.total_reward == 5.0 for episode in episodes)


def test_steps_are_shared_by_lanes() -> None:
    made, weights = evaluator(4)
    assert len(made.play(weights, 80, "timesteps").episodes) == 16  # 20 steps in each of 4 lanes, 5 an episode


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


# -- how long, and beside what ---------------------------------------------------------------------------------------


def test_episodes_go_on_from_one_evaluation_to_the_next_where_they_may() -> None:
    blueprint = counting_blueprint({"length": 5})
    made = Evaluator(RunnerGroup(blueprint, GroupSettings([(0,)])), 1, begins_anew=False)
    weights = blueprint.module.initial(np.random.default_rng(0))
    played = [made.play(weights, 3, "timesteps") for _ in range(4)]
    assert [len(each.episodes) for each in played] == [0, 1, 0, 1]
    assert [each.env_steps for each in played] == [3] * 4


@pytest.mark.parametrize("unit", ["episodes", "timesteps"])
def test_an_evaluation_lasts_as_long_as_something_else(unit: Any) -> None:
    made, weights = evaluator(4)
    answers = iter([True, True, False])
    played = made.play_while(weights, unit, lambda: next(answers), 20)
    assert (len(played.episodes), played.env_steps) == ((12, 3 * 4 * 64) if unit == "episodes" else (12, 60))


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("duration", ["auto", 4])
def test_evaluations_go_on_beside_training_with_the_parameters_before_it(duration: Any) -> None:
    settings = {"evaluation_interval": 1, "evaluation_parallel_to_training": True, "evaluation_num_env_runners": 1}
    made = config(**settings, evaluation_config={"num_cpus_per_env_runner": 0, "explore": False})
    algorithm = PPO(made.evaluation(evaluation_duration=duration))
    expected = PPO(config(evaluation_config={"explore": False}).evaluation(evaluation_duration=4)).evaluate()
    result = algorithm.train()
    found = result["evaluation"]
    assert found["episodes_this_iter"] >= 1 and found["num_healthy_workers"] == 1
    if duration == 4:
        assert found["hist_stats"]["episode_reward"] == expected["hist_stats"]["episode_reward"]
    assert PPO(config()).train()["hist_stats"] == result["hist_stats"]
    algorithm.stop()


def test_auto_needs_training_beside_it() -> None:
    with pytest.raises(ConfigError, match="evaluation_duration='auto' is as long as the training beside it"):
        PPO(config().evaluation(evaluation_duration="auto"))


def test_the_last_evaluation_is_in_each_result_where_that_is_asked_for() -> None:
    algorithm = PPO(config(evaluation_interval=2, always_attach_evaluation_results=True))
    results = [algorithm.train() for _ in range(3)]
    assert "evaluation" not in results[0]
    assert results[1]["evaluation"] == results[2]["evaluation"]


def test_evaluations_have_settings_of_their_own() -> None:
    made = config(evaluation_config={"env_config": {"length": 7}, "explore": False}).environment(Counting)
    algorithm = PPO(made)
    algorithm.train()
    assert algorithm.evaluate()["episode_len_mean"] == 7
    assert algorithm.episodes._last[-1].length == 4


def test_the_parameters_of_a_checkpoint_are_evaluated(tmp_path: Path) -> None:
    made = config(evaluation_config={"explore": False})
    first = PPO(made)
    path = first.save(str(tmp_path))
    expected = first.evaluate()["hist_stats"]
    trained = PPO(made)
    trained.train()
    weights = trained.learner.weights.tobytes()
    assert trained.evaluate(path)["hist_stats"] == expected
    assert trained.learner.weights.tobytes() == weights


# -- by a function of the user's -------------------------------------------------------------------------------------


def test_a_function_of_0_8_5_evaluates_in_the_runners_of_evaluation() -> None:
    def custom_eval_function(trainer: Any, eval_workers: Any) -> dict[str, Any]:
        lengths = eval_workers.foreach_env(lambda env: env.unwrapped.length)
        (weights,) = eval_workers.foreach_worker(lambda worker: worker.get_weights())
        np.testing.assert_array_equal(
            weights["default_policy"]["value/head/bias"], trainer.get_weights()["default_policy"]["value/head/bias"]
        )
        return {"foo": 1, "lengths": lengths, "sampled": eval_workers.local_worker().sample().count}

    made = config(evaluation_config={"env_config": {"length": 9}}).environment(Counting)
    algorithm = PPO(made.update_from_dict({"custom_eval_function": custom_eval_function, "evaluation_interval": 1}))
    found = algorithm.train()["evaluation"]
    assert (found["foo"], found["lengths"]) == (1, [[9]]) and found["sampled"] >= 9


def test_a_function_of_today_returns_steps_as_well() -> None:
    made = config(custom_evaluation_function=lambda algorithm, workers: ({"mine": algorithm.iteration}, 5, 6))
    found = PPO(made).evaluate()
    assert (found["mine"], found["num_env_steps_sampled_this_iter"]) == (0, 5)
    assert found["evaluation"]["num_agent_steps_sampled_this_iter"] == 6


def test_a_function_that_returns_no_metrics_is_named() -> None:
    def forgets(algorithm: Any, workers: Any) -> None:
        pass

    with pytest.raises(EvaluationError, match=r"custom_evaluation_function .*forgets returned None, a NoneType"):
        PPO(config(custom_evaluation_function=forgets)).evaluate()


def test_callbacks_hear_of_evaluations() -> None:
    heard: list[str] = []
    made = config(evaluation_interval=1).callbacks(
        on_evaluate_start=lambda algorithm, **_: heard.append("start"),
        on_evaluate_end=lambda evaluation_metrics, **_: evaluation_metrics.update(heard=[*heard]),
        on_episode_end=lambda episode, **_: episode.custom_metrics.update(length=len(episode)),
    )
    found = PPO(made).train()["evaluation"]
    assert found["heard"] == ["start"]
    assert found["custom_metrics"]["length_mean"] == found["episode_len_mean"]


# -- runners that die, or are late -----------------------------------------------------------------------------------


class Waits(Counting):
    """Waits, in its third step, until a file is there."""

    def __init__(self, env_config: dict[str, Any]) -> None:
        super().__init__(env_config)
        self.file, self.worker = env_config["file"], getattr(env_config, "worker_index", 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Wait, in one of two runners."""
        while self.worker == 2 and not os.path.exists(self.file):
            time.sleep(0.01)
        return super().step(action)


@pytest.mark.usefixtures("session")
def test_runners_that_are_late_are_left_out_until_they_have_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "go"
    made = config(evaluation_num_env_runners=2, evaluation_sample_timeout_s=3).environment(Waits)
    made.environment(env_config={"file": str(file)}).env_runners(num_envs=1)
    made.evaluation(evaluation_config={"num_cpus_per_env_runner": 0}, evaluation_error_after_n_consecutive_skips=1)
    algorithm = PPO(made)
    with caplog.at_level(logging.WARNING, "kernel.rllib"):
        assert algorithm.evaluate()["episodes_this_iter"] == 2  # of three, those of the other runner
    assert "runners [2] have not answered within 3" in caplog.text and "evaluation_sample_timeout_s" in caplog.text
    file.touch()
    deadline = time.monotonic() + 60
    while algorithm.evaluate()["episodes_this_iter"] != 3:
        assert time.monotonic() < deadline
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_runners_that_die_while_they_evaluate_are_replaced() -> None:
    import kernel

    heard: list[Any] = []
    made = config(evaluation_num_env_runners=2, evaluation_config={"num_cpus_per_env_runner": 0})
    made.callbacks(on_env_runners_recreated=lambda env_runner_indices, is_evaluation, **_: heard.append(
        (env_runner_indices, is_evaluation)
    ))  # fmt: skip
    algorithm = PPO(made)
    algorithm.evaluate()
    kernel.kill(algorithm.evaluations.evaluator.runners.actors()[1][1])
    assert algorithm.evaluate()["episodes_this_iter"] == 3
    assert heard == [([2], True)]
    algorithm.stop()
