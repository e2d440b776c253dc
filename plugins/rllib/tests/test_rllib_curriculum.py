"""Curricula: `env_task_fn` sets the tasks of environments by results, with any number of runners, after checkpoints."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.es import ESConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.envs.task import TaskSettableEnv
from kernel_rllib.errors import CallbackError, CheckpointError, ConfigError, EnvError
from kernel_rllib.testing.environments import Counter
from kernel_rllib.training.algorithm import Algorithm

import kernel


class Levels(Counter, TaskSettableEnv):
    """Counts from its level on; a level counts from the next episode."""

    def __init__(self, env_config: Any = None) -> None:
        super().__init__()
        self.level, self.told = 0, 0

    def get_task(self) -> int:
        return self.level

    def set_task(self, task: int) -> None:
        self.level, self.told = task, self.told + 1

    def seen(self) -> Any:
        return super().seen() + np.array([self.level if isinstance(self.level, int) else 0, 0], np.float32)


class SeveralLevels(RockPaperScissors):
    """A match of which the level says how long it is."""

    level = 10

    def get_task(self) -> int:
        return self.level

    def set_task(self, task: int) -> None:
        self.level = self._rounds = task


def harder(result: Any, env: Any, context: Any) -> int:
    """Go on to the next level with each iteration; levels begin at 10 for lanes of one kind, and at 0 for others."""
    assert "config" not in result and result["episode_reward_mean"] is not None
    return int(result["timesteps_total"]) // 16 + (10 if context.get("begins_high") else 0)


def config(runners: int = 0, env: Any = Levels, **changed: Any) -> Any:
    return (
        PPOConfig()
        .environment(env, **{"env_task_fn": harder, **changed})
        .env_runners(num_env_runners=runners, num_envs=2, num_cpus_per_env_runner=0)
        .training(train_batch_size=16, minibatch_size=8, num_epochs=1, model={"fcnet_hiddens": [4]}, lr=0.01)
        .debugging(seed=3)
    )


def tasks_of(algorithm: Any) -> list[Any]:
    found = algorithm.workers.foreach_env(lambda env: env.unwrapped.get_task())
    return [task for worker in found for task in worker]


def weights_after(algorithm: Any, iterations: int = 3) -> bytes:
    for _ in range(iterations):
        algorithm.train()
    weights = b"".join(learner.weights.tobytes() for learner in algorithm.learners.values())
    algorithm.stop()
    return bytes(weights)


def test_tasks_follow_from_results(tmp_path: Any) -> None:
    seen: list[Any] = []

    def noted(result: Any, env: Any, context: Any) -> Any:
        seen.append((result["training_iteration"], type(env).__name__, context.vector_index, context["begins_high"]))
        return harder(result, env, context)

    algorithm = config(env_task_fn=noted, env_config={"begins_high": True}).build()
    assert tasks_of(algorithm) == [0, 0]
    algorithm.train()
    assert tasks_of(algorithm) == [11, 11] and seen == [(1, "Levels", 0, True), (1, "Levels", 1, True)]
    batch = algorithm.workers.local_worker().sample()
    assert batch["obs"][:, 0].max() == 14, "a level counts from the next episode"
    algorithm.train()
    assert tasks_of(algorithm) == [12, 12]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("several", [False, True])
def test_bits_are_the_same_for_any_number_of_runners(several: bool) -> None:
    env = SeveralLevels if several else Levels
    made = [weights_after(config(runners, env).build()) for runners in (0, 2)]
    assert made[0] == made[1]
    still = weights_after(config(0, env, env_task_fn=None).build())
    assert still != made[0], "it makes a difference"


@pytest.mark.usefixtures("session")
def test_bits_are_the_same_where_runners_sample_ahead() -> None:
    made = [weights_after(config(runners).env_runners(pipelined_sampling=True).build()) for runners in (0, 2)]
    assert made[0] == made[1]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("recovery", ["exact", "recreate"])
def test_a_runner_that_takes_the_place_of_another_has_its_tasks(recovery: str) -> None:
    algorithm = config(2).fault_tolerance(recovery=recovery).build()
    algorithm.train()
    kernel.kill(algorithm.runners.actors()[1][1])
    algorithm.train()
    assert tasks_of(algorithm) == [2, 2]
    kernel.kill(algorithm.runners.actors()[0][1])
    assert tasks_of(algorithm) == [2, 2]
    if recovery == "exact":
        assert weights_after(algorithm, 1) == weights_after(config(0).build())
    algorithm.stop()


def test_checkpoints_have_the_tasks(tmp_path: Any) -> None:
    algorithm = config().build()
    for _ in range(2):
        algorithm.train()
    path = algorithm.save(str(tmp_path))
    resumed = config().build()
    resumed.restore(path)
    assert tasks_of(resumed) == [2, 2]
    assert weights_after(resumed, 1) == weights_after(algorithm, 1)
    begun = Algorithm.from_checkpoint(path)
    assert tasks_of(begun) == [2, 2] and begun.workers.local_worker().sample()["obs"][:, 0].min() == 2


def test_tasks_may_be_any_objects(tmp_path: Any) -> None:
    class Goal:
        def __init__(self, place: int) -> None:
            self.place = place

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Goal) and other.place == self.place

    for goal in (np.array([1.0, 2.0]), {"place": [1, 2]}, Goal(3)):
        algorithm = config(env_task_fn=lambda result, env, context, goal=goal: goal).build()
        for _ in range(2):
            algorithm.train()
        assert [env.told for env in algorithm.workers.foreach_env(lambda env: env)[0]] == [1, 1], "it is set once"
        path = algorithm.save(str(tmp_path / str(type(goal).__name__)))
        if isinstance(goal, Goal):
            with pytest.raises(CheckpointError, match="a task of env_task_fn is an object that only a pickle can keep"):
                Algorithm.from_checkpoint(path, config={"env_task_fn": harder})
            algorithm.restore(path)
            assert tasks_of(algorithm) == [goal] * 2
        else:
            again = Algorithm.from_checkpoint(path, config={"env_task_fn": harder})
            assert all(np.array_equal(task, goal) for task in tasks_of(again))


@pytest.mark.parametrize("mode", ["async", "actors"])
def test_environments_in_processes_and_actors_have_tasks(mode: str, session: None) -> None:
    def by_lane(result: Any, env: Any, context: Any) -> int:
        return 5 + int(context.vector_index)

    options = {"remote_worker_envs": True} if mode == "actors" else {"gym_env_vectorize_mode": mode}
    algorithm = config(env_task_fn=by_lane).env_runners(**options).build()
    algorithm.train()
    assert tasks_of(algorithm) == [5, 6]
    algorithm.stop()


def test_what_has_no_tasks_is_said() -> None:
    with pytest.raises(EnvError, match="env_task_fn sets tasks, and Counter has none: derive it from TaskSettableEnv"):
        config(env=lambda context: Counter()).build()
    wrapped = config(env=lambda context: gymnasium.wrappers.TimeLimit(Levels(context), 3)).build()
    wrapped.train()
    assert tasks_of(wrapped) == [1, 1], "wrappers are looked into"

    def wrong(result: Any, env: Any, context: Any) -> Any:
        return result["no_such_key"]

    with pytest.raises(CallbackError, match="env_task_fn raised KeyError: 'no_such_key'"):
        config(env_task_fn=wrong).build().train()
    with pytest.raises(ConfigError, match="ES plays each trial in any of its environments, so tasks of env_task_fn"):
        ESConfig().environment(Levels, env_task_fn=harder).build()
