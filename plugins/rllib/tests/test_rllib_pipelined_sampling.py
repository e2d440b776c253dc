"""Pipelined sampling: the next batch is sampled with the parameters of before, and has the same bits everywhere."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kernel_rllib.algorithms.a2c import A2C, A2CConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.callbacks.callbacks import RLlibCallback
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.testing.multi_agent import TakingTurns
from kernel_rllib.training.algorithm import Algorithm


class CountsEnds(RLlibCallback):
    """Reports the length of each episode."""

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        """Report it."""
        episode.custom_metrics["steps"] = episode.length


def by_number(agent: Any, episode: Any, **further: Any) -> str:
    """Return a policy for each agent."""
    return f"p{agent}"


def by_next_number(agent: Any, episode: Any, **further: Any) -> str:
    """Return another policy for each agent."""
    return f"p{agent + 1}"


def config(kind: str = "PPO", runners: int = 0, *, pipelined: bool = True, **env_runners: Any) -> Any:
    """Return small settings with four lanes in all."""
    made: Any = {"A2C": A2CConfig, "PG": PGConfig}.get(kind, PPOConfig)()
    made.environment("CartPole-v1").debugging(seed=3).reporting(min_time_s_per_iteration=0)
    made.training(train_batch_size=64, lr=1e-3, model={"fcnet_hiddens": [8]})
    made.env_runners(num_envs=4, num_env_runners=runners, num_cpus_per_env_runner=0, pipelined_sampling=pipelined)
    if isinstance(made, PPOConfig):
        made.training(minibatch_size=32, num_epochs=2)
    if kind in ("fragments", "two agents"):
        made.env_runners(rollout_fragment_length=8)
    if kind == "fragments":
        made.env_runners(observation_filter="MeanStdFilter").callbacks(CountsEnds)
    if kind == "episodes":
        made.env_runners(batch_mode="complete_episodes", rollout_fragment_length=4)
    if kind == "two agents":
        made.environment(TakingTurns).multi_agent(policies={"p0", "p1"}, policy_mapping_fn=by_number)
        made.multi_agent(count_steps_by="agent_steps")
    return made.env_runners(**env_runners)


KINDS = ("PPO", "A2C", "PG", "fragments", "episodes", "two agents")


def weights_of(algorithm: Algorithm) -> dict[str, bytes]:
    """Return all parameters by policy."""
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


def shown(result: Any) -> Any:
    """Return what of a result does not depend on the time that it took."""
    return [repr(result.get(key)) for key in ("episode_reward_mean", "timesteps_total", "custom_metrics", "hist_stats")]


def trained(algorithm: Algorithm, iterations: int) -> list[Any]:
    """Return what is to be the same everywhere, after each of some iterations."""
    return [(shown(algorithm.train()), weights_of(algorithm)) for _ in range(iterations)]


# -- which parameters a batch is sampled with -------------------------------------------------------------------------


class Watched(A2C):
    """Writes down which parameters each batch was sampled with, and which learn from it."""

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Write them down, and learn."""
        self.seen = [*getattr(self, "seen", []), ({each.weights_version for each in fragments}, self.learner.version)]
        return super().learn(fragments)


@pytest.mark.parametrize("fragment", ["auto", 4])
def test_a_batch_is_sampled_with_the_parameters_of_one_step_before(fragment: Any) -> None:
    for pipelined, versions in ((True, [0, 0, 1, 2]), (False, [0, 1, 2, 3])):
        algorithm = Watched(config("A2C", pipelined=pipelined, rollout_fragment_length=fragment))
        for _ in range(4):
            algorithm.train()
        assert algorithm.seen == [({version}, step) for step, version in enumerate(versions)]


def test_a_batch_of_whole_episodes_may_need_more_than_was_asked_for_ahead() -> None:
    algorithm = Watched(config("A2C", batch_mode="complete_episodes", rollout_fragment_length=1, num_envs=1))
    for _ in range(3):
        algorithm.train()
    assert algorithm.seen == [({0}, 0), ({0, 1}, 1), ({1, 2}, 2)]


# -- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("runners", "kind"), [(1, "PPO"), (4, "PPO"), *((2, kind) for kind in KINDS)])
def test_any_number_of_runners_ends_with_the_same_bits(runners: int, kind: str) -> None:
    alone, many = config(kind).build(), config(kind, runners).build()
    assert trained(many, 3) == trained(alone, 3)
    many.stop()


@pytest.mark.usefixtures("session")
def test_policies_may_come_and_go_while_samples_are_under_way() -> None:
    found = []
    for runners in (0, 2):
        algorithm = config("two agents", runners).build()
        algorithm.train()
        algorithm.add_policy("p2", policy_mapping_fn=by_next_number)
        algorithm.remove_policy("p0")
        found.append(trained(algorithm, 3))
        assert sorted(algorithm.learners) == ["p1", "p2"]
        assert algorithm.learners["p2"].version > 0
        algorithm.stop()
    assert found[0] == found[1]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("before", "kind"), [(0, "PPO"), (1, "PPO"), *((2, kind) for kind in KINDS)])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, before: int, kind: str) -> None:
    straight = config(kind, 2 * (kind != "PPO")).build()
    trained(straight, before)
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed = config(kind, 2 * (kind == "PPO")).build()
    resumed.restore(path)
    again = resumed.save(str(tmp_path / "again"))
    expected = trained(straight, 2)
    assert trained(resumed, 2) == expected
    assert trained(Algorithm.from_checkpoint(again, trust=True), 2) == expected
    for algorithm in (straight, resumed):
        algorithm.stop()


def test_what_was_sampled_ahead_is_used_without_trust_and_without_pipelining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    algorithm = config("fragments").build()
    trained(algorithm, 2)
    path = algorithm.save(str(tmp_path))
    expected = trained(algorithm, 1)[0][1]
    plain = Algorithm.from_checkpoint(path, trust=True, config={"pipelined_sampling": False})
    assert trained(plain, 1)[0][1] == expected
    assert plain.runners.rounds_asked == 0
    monkeypatch.setattr(pickle, "loads", lambda data: pytest.fail("something was unpickled"))
    assert trained(Algorithm.from_checkpoint(path), 1)[0][1] == expected


class LosingRunners(PPO):
    """Loses runners as soon as they have brought a batch: what they are asked for ahead is lost with them."""

    lost: tuple[int, ...] = ()
    """The numbers of the runners."""

    def ask_ahead(self) -> None:
        """End their processes, and ask."""
        processes = dict(self.runners.foreach(process_of))
        for index in self.lost:
            os.kill(processes[index], signal.SIGKILL)
        super().ask_ahead()


def process_of(runner: EnvRunner) -> tuple[int, int]:
    """Return the number of a runner and its process."""
    return runner.index, os.getpid()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", ["PPO", "fragments"])
def test_exact_recovery_makes_samples_again_that_were_asked_for_ahead(tmp_path: Path, kind: str) -> None:
    expected = trained(config(kind).build(), 4)
    algorithm = LosingRunners(config(kind, 2).fault_tolerance(recovery="exact"))
    found = trained(algorithm, 1)
    algorithm.lost = (1,)
    found += trained(algorithm, 1)
    algorithm.lost = (2,)
    found += trained(algorithm, 1)
    algorithm.save(str(tmp_path))
    algorithm.lost = ()
    found += trained(algorithm, 1)
    assert found == expected
    assert algorithm.runners.num_healthy_runners == 2
    algorithm.stop()


def test_evaluations_in_between_change_nothing_of_what_was_sampled_ahead() -> None:
    plain, busy = config("fragments").build(), config("fragments").evaluation(evaluation_interval=1).build()
    assert trained(busy, 3) == trained(plain, 3)


# -- where there is none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [DQNConfig, DDPPOConfig])
def test_algorithms_that_sample_otherwise_refuse_it(made: Any) -> None:
    settings = made().environment("CartPole-v1").env_runners(pipelined_sampling=True)
    with pytest.raises(ConfigError, match="does not act on pipelined_sampling, as A2C, PG, PPO do"):
        settings.build()
