"""Policies by themselves: written, read without an algorithm and without environments, acting and learning on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.errors import CheckpointError, ConfigError, RLlibError, UnknownPolicyError
from kernel_rllib.export.player import Policy as Played
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.policy.worker import worker_of
from kernel_rllib.testing.multi_agent import TakingTurns


class Forgotten(gymnasium.Wrapper):  # type: ignore[type-arg]
    """An environment that is not there where the policy is read."""

    def __init__(self, env_config: Any) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))


def small(kind: str = "PPO", **model: Any) -> Any:
    """Return small settings."""
    made: Any = {
        "PPO": lambda: PPOConfig().training(train_batch_size=32, minibatch_size=16, num_epochs=1, lr=1e-2),
        "DQN": lambda: DQNConfig().training(
            train_batch_size=8, hiddens=[4], num_steps_sampled_before_learning_starts=8, training_intensity=1
        ),
    }[kind]()
    made.training(model={"fcnet_hiddens": [4], **model}).debugging(seed=3)
    return made.environment(Forgotten).env_runners(num_env_runners=0, num_envs=2).reporting(
        min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=32
    )  # fmt: skip


def trained(settings: Any) -> Any:
    """Return an algorithm that has learned."""
    algorithm = settings.build()
    algorithm.train()
    return algorithm


OBS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


@pytest.mark.parametrize("settings", [
    small(), small("DQN"), small(use_lstm=True, lstm_cell_size=4, max_seq_len=4),
    small().env_runners(observation_filter="MeanStdFilter"),
], ids=["ppo", "dqn", "lstm", "filter"])  # fmt: skip
def test_a_policy_acts_as_it_did(settings: Any, tmp_path: Path) -> None:
    algorithm = trained(settings)
    policy = algorithm.get_policy()
    assert policy.export_checkpoint(str(tmp_path / "policy")) == str(tmp_path / "policy")
    algorithm.save(str(tmp_path / "all"))
    assert "Forgotten" not in (tmp_path / "policy" / "settings.json").read_text()
    rows = algorithm.inference.rows(list(OBS))
    expected, states, _ = policy.compute_actions(rows, policy_state(policy), explore=False)
    for read in (
        Policy.from_checkpoint(tmp_path / "policy"),
        Policy.from_checkpoint(tmp_path / "all")["default_policy"],
    ):
        np.testing.assert_array_equal(read.preprocess(list(OBS)), rows)
        actions, after, _ = read.compute_actions(rows, policy_state(read), explore=False)
        np.testing.assert_array_equal(actions, expected)
        for found, was in zip(after, states, strict=True):
            np.testing.assert_array_equal(found, was)
        assert (read.observation_space, read.action_space) == (policy.observation_space, policy.action_space)
        assert read.config["lr"] == policy.config["lr"]


def policy_state(policy: Any) -> list[Any]:
    """Return what a policy remembers at first, for all rows."""
    return [np.repeat(first[None], len(OBS), axis=0) for first in policy.get_initial_state()]


def test_a_policy_that_was_read_learns_on_and_is_written_again(tmp_path: Path) -> None:
    algorithm = trained(small("DQN"))
    algorithm.export_policy_checkpoint(str(tmp_path / "policy"))
    read = Policy.from_checkpoint(str(tmp_path / "policy"))
    batch = algorithm.workers.local_worker().sample()
    before = read.get_weights()
    ready = {**batch, "weights": np.ones(batch.count, np.float32), "value_targets": np.ones(batch.count, np.float32)}
    assert "mean_q" in read.learn_on_batch(ready)["learner_stats"]
    assert any((value != before[name]).any() for name, value in read.get_weights().items())
    read.export_checkpoint(str(tmp_path / "again"))
    for name, value in Policy.from_checkpoint(str(tmp_path / "again")).get_weights().items():
        np.testing.assert_array_equal(value, read.get_weights()[name])
    read.export_model(str(tmp_path / "played"))
    expected, _, _ = read.compute_actions(OBS, explore=False)
    assert Played(tmp_path / "played").actions(OBS).tolist() == expected.tolist()
    module = SavedModule.from_checkpoint(tmp_path / "again")
    assert module.forward_inference({"obs": OBS})["actions"].tolist() == expected.tolist()  # type: ignore[union-attr]


def test_policies_of_several_agents_come_by_their_ids(tmp_path: Path) -> None:
    settings = small().environment(TakingTurns).multi_agent(
        policies={"p0", "p1"}, policy_mapping_fn=lambda agent, *_, **__: f"p{agent}"
    )  # fmt: skip
    algorithm = trained(settings)
    path = algorithm.save(str(tmp_path))
    read = Policy.from_checkpoint(path)  # the lambda is of the run: no pickle is asked for
    assert sorted(read) == ["p0", "p1"]
    assert list(Policy.from_checkpoint(path, policy_ids=["p1"])) == ["p1"]
    obs = OBS[:, :3]
    for name, policy in read.items():
        expected = algorithm.get_policy(name).compute_actions(obs, explore=False)[0]
        np.testing.assert_array_equal(policy.compute_actions(obs, explore=False)[0], expected)
    with pytest.raises(UnknownPolicyError, match=r"has no policy 'p2' with a module; it has p0, p1"):
        Policy.from_checkpoint(path, policy_ids=["p2"])


def test_what_is_no_policy_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no policy: there is no module.json in it, and no learner_group/"):
        Policy.from_checkpoint(tmp_path)
    algorithm = trained(small())
    algorithm.export_policy_checkpoint(str(tmp_path))
    (tmp_path / "settings.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no settings.json, so how the policy acts is not known: an earlier"):
        Policy.from_checkpoint(tmp_path)
    with pytest.raises(
        ConfigError, match=r"import_model_from_h5\('a.h5'\) can't be done: no model here reads files of K"
    ):
        algorithm.get_policy().import_model_from_h5("a.h5")
    with pytest.raises(
        RLlibError, match=r"a runner's copy of the policy, and can't export_model: call export_model of al"
    ):
        worker_of(algorithm.runners.local, algorithm.workers._settings).get_policy().export_model(str(tmp_path))
    with pytest.raises(RLlibError, match=r"Own has no export_checkpoint\(\): define it, where it is asked for"):
        Own(None, None, {}).export_checkpoint("here")  # type: ignore[arg-type]


class Own(Policy):
    """A policy by its own code."""


# -- episodes of workers that are sampled by hand ---------------------------------------------------------------------


def test_a_worker_tells_of_the_episodes_of_its_samples() -> None:
    settings = small().training(train_batch_size=120).env_runners(rollout_fragment_length=60).callbacks(
        on_episode_end=lambda episode, **_: episode.custom_metrics.update(steps=episode.length)
    )  # fmt: skip
    worker = settings.build().workers.local_worker()
    assert worker.get_metrics() == []
    ended = sum(int(worker.sample()["dones"].sum()) for _ in range(2))
    found = worker.get_metrics()
    assert ended == len(found) > 1
    for each in found:
        assert each.episode_length == each.episode_reward == each.custom_metrics["steps"]
        assert each.agent_rewards == {("agent0", "default_policy"): each.episode_reward}
        assert each.perf_stats["sample_time_ms"] > 0
    assert worker.get_metrics() == []


def test_a_worker_of_several_agents_tells_what_each_earned() -> None:
    settings = small().environment(TakingTurns).training(train_batch_size=60)
    settings.env_runners(rollout_fragment_length=30)
    settings.multi_agent(policies={"p0", "p1"}, policy_mapping_fn=lambda agent, *_, **__: f"p{agent}")
    worker = settings.build().workers.local_worker()
    worker.sample()
    first = worker.get_metrics()[0]
    assert set(first.agent_rewards) <= {("0", "p0"), ("1", "p1")}
    assert sum(first.agent_rewards.values()) == first.episode_reward
