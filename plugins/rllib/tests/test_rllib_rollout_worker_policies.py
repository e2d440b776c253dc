"""Workers without an algorithm that sample with several policies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.envs.games.cart_pole import CartPole
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.errors import ConfigError, UnknownPolicyError
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.first_generation.rollout_worker import RolloutWorker, WorkerSet

import kernel

MAPPING = {"player_0": "left", "player_1": "right"}


class Throwing(Policy):
    """Throws what its settings say, and counts from 0 on; writes down what others threw; learns by counting batches."""

    def __init__(self, observation_space: Any, action_space: Any, config: Any) -> None:
        super().__init__(observation_space, action_space, config)
        self.learned, self.stepped = 0, 0
        self.most = 0

    def get_initial_state(self) -> list[Any]:
        return [0]

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, *args: Any, **named: Any) -> Any:
        self.most = max(self.most, len(obs_batch))
        count = len(obs_batch)
        return [self.config["throw"]] * count, [np.asarray(state_batches[0]) + 1], {"named": ["it"] * count}

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        [(agent, (policy, batch))] = other_agent_batches.items()
        assert MAPPING[agent] == episode.policy_for(agent) == policy.config["name"]
        sample_batch["others"] = batch["actions"]
        assert "others" not in batch, "others are shown as they were before"
        return sample_batch

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        self.learned += samples.count
        return {"learned": self.learned}

    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        return postprocessed_batch.count, {"seen": postprocessed_batch.count}

    def apply_gradients(self, gradients: Any) -> Any:
        self.stepped += gradients
        return self.stepped

    def get_weights(self) -> dict[str, Any]:
        return {"learned": self.learned}

    def set_weights(self, weights: Any) -> None:
        self.learned = weights["learned"]


def of(name: str, throw: int) -> tuple[Any, ...]:
    return Throwing, None, None, {"throw": throw, "name": name}


POLICIES = {"left": of("left", 0), "right": of("right", 2)}


def worker(**changed: Any) -> RolloutWorker:
    given = {"policy": POLICIES, "policy_mapping_fn": lambda agent: MAPPING[agent], "rollout_fragment_length": 15}
    return RolloutWorker(lambda config: RockPaperScissors(config), **{**given, "seed": 1, **changed})


def test_a_sample_has_a_batch_for_each_policy() -> None:
    made = worker(policies_to_train=["left"])
    sample, count = made.sample_with_count()
    assert isinstance(sample, MultiAgentBatch) and count == sample.env_steps() == 15 and sample.agent_steps() == 30
    left, right = sample["left"], sample["right"]
    assert set(left["actions"]) == set(right["others"]) == {0} and set(right["actions"]) == set(left["others"]) == {2}
    assert (left["rewards"] == -right["rewards"]).all() and left["rewards"].any()
    assert left["agent_index"].max() == 0 and right["agent_index"].min() == 1
    assert left["state_in_0"].tolist() == [*range(10), *range(5)] == left["t"].tolist(), "episodes have ten steps"
    assert left["eps_id"].tolist() == [0] * 10 + [1] * 5 and set(left["named"]) == {"it"}
    assert made.get_policy("left").most == 1, "policies are asked for those who act, and nobody else"
    second = made.sample()["right"]
    assert second["state_in_0"].tolist() == [*range(5, 10), *range(10)], "the episode goes on with the next sample"


def test_policies_are_asked_and_learn_by_their_ids() -> None:
    made = worker(policies_to_train=["left"], policy=None, policies=POLICIES)
    sample = made.sample()
    assert made.foreach_policy(lambda policy, name: (name, policy.config["throw"])) == [("left", 0), ("right", 2)]
    assert made.foreach_trainable_policy(lambda policy, name: name) == made.get_policies_to_train() == ["left"]
    assert made.for_policy(lambda policy: policy.config["throw"], "right") == 2
    assert made.learn_on_batch(sample) == {"left": {"learned": 15}}
    assert made.get_weights() == {"left": {"learned": 15}, "right": {"learned": 0}}
    gradients, info = made.compute_gradients(sample)
    assert gradients == {"left": 15} and info == {"left": {"seen": 15}}
    assert made.apply_gradients(gradients) == {"left": 15} and made.get_policy("right").stepped == 0
    made.set_weights({"right": {"learned": 7}}, {"timestep": 40})
    assert made.get_weights(["right"]) == {"right": {"learned": 7}}
    assert made.foreach_policy(lambda policy, name: policy.global_timestep) == [40, 40]
    assert made.foreach_env(lambda env: type(env).__name__) == ["RockPaperScissors"]
    with pytest.raises(UnknownPolicyError, match="there is no policy 'default_policy'; there are left, right"):
        made.get_policy()


@pytest.mark.parametrize("envs", [1, 3])
def test_samples_are_of_whole_episodes_where_they_are_to_be(envs: int) -> None:
    made = worker(batch_mode="complete_episodes", num_envs=envs)
    for _ in range(2):
        sample = made.sample()
        assert [batch.count for batch in sample.policy_batches.values()] == [20 * envs] * 2
        assert sample["left"]["dones"].sum() == 2 * envs


def test_all_agents_may_have_one_policy_and_callbacks_hear_of_them() -> None:
    seen: list[Any] = []

    class Quiet(Throwing):
        def postprocess_trajectory(self, sample_batch: Any, *args: Any) -> Any:
            return sample_batch

    told = {"throw": 1, "callbacks": {"on_sample_end": lambda info: seen.append(info["samples"])}}
    made = RolloutWorker(lambda config: RockPaperScissors(), Quiet, rollout_fragment_length=10, policy_config=told)
    batch = made.sample()
    assert batch.count == 20 and sorted(set(batch["agent_index"])) == [0, 1]
    assert [len(piece["t"]) for piece in batch.split_by_episode()] == [10, 10]
    assert seen[0].env_steps() == 10 and "agent_index" not in seen[0]["default_policy"]


@pytest.mark.usefixtures("session")
def test_workers_in_actors_have_all_policies() -> None:
    several = {"policies": POLICIES, "policy_mapping_fn": lambda agent: MAPPING[agent], "policies_to_train": ["right"]}
    nothing = {name: (None, *spec[1:]) for name, spec in POLICIES.items()}
    for policy, named in ((None, several), (Throwing, {**several, "policies": nothing})):
        workers = WorkerSet(
            lambda config: RockPaperScissors(),
            policy,
            {"multiagent": named, "num_cpus_per_worker": 0, "rollout_fragment_length": 5},
            num_workers=1,
        )
        sample = kernel.get(workers.remote_workers()[0].sample.remote())
        assert sample["right"].count == 5 and set(sample["right"]["others"]) == {0}
        assert workers.foreach_worker(lambda each: each.get_policies_to_train()) == [["right"]] * 2
        workers.stop()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policies": POLICIES}, "was given policy= and policies=: give one of them"),
        ({"policy": {"left": 3}}, "RolloutWorker can't have these policies: 'left' must have a PolicySpec or"),
        ({"policy": {"left": (str, None, None, {})}}, "RolloutWorker, for 'left', was given the policy"),
        ({"policy": POLICIES, "env_creator": CartPole}, "the policies 'left', 'right' for an environment of one agent"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, said: str) -> None:
    if "env_creator" in given:
        with pytest.raises(ConfigError, match=said):
            RolloutWorker(**given)
    else:
        with pytest.raises(ConfigError, match=said):
            worker(**given)
