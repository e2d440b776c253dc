"""Callbacks of all generations where there are several agents: what they hear, change and report, with which bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.callbacks.callbacks import DefaultCallbacks, RLlibCallback
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.errors import CallbackError
from kernel_rllib.testing.multi_agent import TakingTurns


def small(callbacks: Any = None, **env_runners: Any) -> Any:
    """Return small settings of two agents that act by turns, with a policy each."""
    return (
        PPOConfig()
        .environment(TakingTurns)
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1, lr=1e-2, model={"fcnet_hiddens": [8]})
        .multi_agent(policies=["p0", "p1"], policy_mapping_fn=lambda agent, episode, **_: f"p{agent}")
        .callbacks(callbacks)
        .debugging(seed=3)
    )


def weights_of(algorithm: Any) -> dict[str, bytes]:
    """Return all parameters by policy."""
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


class Of085(DefaultCallbacks):
    """Callbacks as the documents of 0.8.5 write them."""

    def on_episode_start(self, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any) -> None:
        """Begin to add up."""
        assert list(policies) == list(worker.policy_map) == ["p0", "p1"]
        assert worker.get_policy("p0").get_weights().keys() == policies["p1"].get_weights().keys()
        assert isinstance(base_env.get_unwrapped()[0], TakingTurns)
        assert episode.get_agents() == [0] and episode.agent_rewards == {(0, "p0"): 0.0}
        episode.user_data["rewards"] = {0: 0.0, 1: 0.0}

    def on_episode_step(self, worker: Any, base_env: Any, episode: Any, **kwargs: Any) -> None:
        """Look at what agents did, observed and got."""
        acted = episode.agent_steps() - episode.user_data.get("acted", 0)
        episode.user_data["acted"] = episode.agent_steps()
        assert acted == 1  # one after the other
        for agent in episode.get_agents():
            assert episode.policy_for(agent) == f"p{agent}"
            assert episode.last_observation_for(agent).shape == (3,)
            assert episode.last_action_for(agent) in (0, 1, None) and episode.last_info_for(agent) == {}
            episode.user_data["rewards"][agent] = sum(episode.tracks[agent].rewards)
        if 1 not in episode.get_agents():
            with pytest.raises(CallbackError, match="no agent 1 has been in this episode; there are 0"):
                episode.policy_for(1)

    def on_episode_end(self, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any) -> None:
        """Report of it."""
        rewards = episode.user_data["rewards"]
        assert episode.agent_rewards == {(agent, f"p{agent}"): rewards[agent] for agent in episode.get_agents()}
        assert episode.total_reward == sum(rewards.values())
        episode.custom_metrics["of_first"] = rewards[0]
        episode.hist_data["of_second"] = [rewards[1]]

    def on_sample_end(self, worker: Any, samples: Any, **kwargs: Any) -> None:
        """Look at it."""
        assert isinstance(samples, MultiAgentBatch) and set(samples.policy_batches) == {"p0", "p1"}


class OfToday(RLlibCallback):
    """Callbacks as today's documents write them."""

    def on_episode_step(self, *, episode: Any, env_runner: Any, metrics_logger: Any, rl_module: Any, **kw: Any) -> None:
        """Log what the first agent did last."""
        assert set(rl_module) == {"p0", "p1"} and episode.module_for(0) == "p0"
        for action in episode.get_actions(-1, agent_ids=[0]).values():
            metrics_logger.log_value("last_action", float(action), reduce="sum")

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log returns."""
        assert episode.is_done and len(episode) == episode.env_steps() == episode.t
        assert len(episode.get_observations()[0]) == len(episode.get_actions()[0]) + 1
        metrics_logger.log_value("returned", episode.get_return(), reduce="sum")


@pytest.mark.usefixtures("session")
def test_callbacks_of_all_generations_hear_of_agents_in_any_runner() -> None:
    settings = small([Of085, OfToday])
    alone = settings.copy(copy_frozen=False).build()
    two = settings.env_runners(num_env_runners=2).build()
    results = [[algorithm.train() for _ in range(3)][-1] for algorithm in (alone, two)]
    for key in ("custom_metrics", "hist_stats", "policy_reward_mean"):
        np.testing.assert_equal(results[0][key], results[1][key])
    for key in ("last_action", "returned"):
        assert results[0]["env_runners"][key] == pytest.approx(results[1]["env_runners"][key])
    mean = results[0]["custom_metrics"]["of_first_mean"]
    assert mean == pytest.approx(results[0]["policy_reward_mean"]["p0"])
    second = results[0]["hist_stats"]["policy_p1_reward"]
    assert sorted(results[0]["hist_stats"]["of_second"])[-len(second) :] == sorted(second)[-len(second) :]
    without = small().build()
    for _ in range(3):
        without.train()
    assert weights_of(alone) == weights_of(two) == weights_of(without)
    two.stop()


def test_callbacks_go_on_after_a_checkpoint(tmp_path: Path) -> None:
    straight = small([Of085, OfToday]).build()
    straight.train()
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed = small([Of085, OfToday]).build()
    resumed.restore(path)
    result, again = straight.train(), resumed.train()
    np.testing.assert_equal(again["custom_metrics"], result["custom_metrics"])
    without = small().build()
    without.restore(path)
    without.train()
    assert weights_of(without) == weights_of(resumed) == weights_of(straight)
    changed = small(Postprocessing).build()
    changed.restore(without.save(str(tmp_path / "without")))
    changed.train()
    assert Postprocessing.steps > 0


class Postprocessing(DefaultCallbacks):
    """Changes what is learned from, agent by agent."""

    steps = 0
    pieces: list[Any] = []

    def on_postprocess_trajectory(
        self, worker: Any, episode: Any, agent_id: Any, policy_id: str, policies: Any, postprocessed_batch: Any,
        original_batches: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Look at each piece, and change rewards."""
        assert policy_id == episode.policy_for(agent_id) and agent_id in original_batches
        policy, original = original_batches[agent_id]
        assert policy is policies[policy_id]
        np.testing.assert_array_equal(original["obs"], postprocessed_batch["obs"])
        assert not postprocessed_batch["terminateds"][:-1].any()
        Postprocessing.steps += postprocessed_batch.count
        Postprocessing.pieces.append((episode.episode_id, agent_id, original["rewards"], sorted(original_batches)))
        postprocessed_batch["rewards"] = original["rewards"] + 10 * (agent_id + 1)
        postprocessed_batch["agent"] = np.full(postprocessed_batch.count, agent_id)


def test_what_agents_did_is_changed_before_it_is_learned_from() -> None:
    algorithm = small(Postprocessing).build()
    Postprocessing.pieces.clear()
    before = Postprocessing.steps
    found = algorithm.sample_all()
    assert set(found) == {"p0", "p1"}
    rows = {policy_id: fragment.batch() for policy_id, fragment in found.items()}
    assert Postprocessing.steps - before == sum(batch.count for batch in rows.values())
    for agent in (0, 1):
        batch = rows[f"p{agent}"]
        assert set(batch["agent"].tolist()) == {agent}
        given = np.concatenate([rewards for _, whose, rewards, _ in Postprocessing.pieces if whose == agent])
        assert sorted(batch["rewards"].tolist()) == sorted((given + 10 * (agent + 1)).tolist())
        assert "eps_id" not in batch
    both = [others for *_, others in Postprocessing.pieces]
    assert [0, 1] in both
    learned = small(Postprocessing).build()
    learned.train()
    without = small().build()
    without.train()
    assert weights_of(learned) != weights_of(without)


def test_functions_of_one_dict_hear_of_agents() -> None:
    heard: list[Any] = []
    functions = {
        "on_episode_end": lambda info: heard.append(("end", info["episode"].agent_rewards, sorted(info["policy"]))),
        "on_postprocess_traj": lambda info: heard.append(("post", info["agent_id"], info["pre_batch"][1].count)),
    }
    small(functions).build().train()
    assert {kind for kind, *_ in heard} == {"end", "post"}
    assert {agent for kind, agent, _ in heard if kind == "post"} == {0, 1}
    assert all(policies == ["p0", "p1"] for kind, _, policies in heard if kind == "end")


def test_callbacks_follow_policies_that_come_and_go() -> None:
    seen: list[Any] = []
    settings = small().callbacks(on_episode_end=lambda worker, episode, **_: seen.append(
        (sorted(worker.policy_map), {policy for _, policy in episode.agent_rewards})
    ))  # fmt: skip
    algorithm = settings.build()
    algorithm.train()
    algorithm.add_policy("p2", policy_mapping_fn=lambda *_, **__: "p2")
    algorithm.remove_policy("p1")
    seen.clear()
    algorithm.train()
    assert seen[-1] == (["p0", "p2"], {"p2"})
    assert "p1" in seen[0][1]  # this episode began before
    assert all(policies == ["p0", "p2"] for policies, _ in seen)


def test_evaluations_call_the_callbacks_too() -> None:
    found = small(Of085).evaluation(evaluation_duration=2).build().evaluate()
    assert np.isfinite(found["custom_metrics"]["of_first_mean"])
