"""Several policies as workers and algorithms are asked for them: here, in actors, and those of the user's own class."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.errors import UnknownPolicyError

import kernel

MAPPING = {"player_0": "left", "player_1": "right"}


class Counting:
    """Throws rock, paper and scissors one after another, and remembers how often it has thrown."""

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        self.observation_space, self.told = observation_space, config

    def get_initial_state(self) -> list[Any]:
        """Return that it has thrown nothing."""
        return [0]

    def compute_actions(self, obs_batch: Any, state_batches: Any, **further: Any) -> Any:
        """Return the next throw of each row."""
        return [int(count) % 3 for count in state_batches[0]], [[count + 1 for count in state_batches[0]]], {}


def settings(runners: int = 0, left: Any = None, **multi_agent: Any) -> Any:
    """Return small settings of three policies: two that learn, and one of a class of its own."""
    return (
        PPOConfig()
        .environment(RockPaperScissors)
        .env_runners(num_env_runners=runners, num_envs=2, num_cpus_per_env_runner=0)
        .training(train_batch_size=40, minibatch_size=40, num_epochs=1, lr=1e-2, model={"fcnet_hiddens": [8]})
        .multi_agent(
            policies={
                "left": left or PolicySpec(config={"gamma": 0.5}),
                "right": PolicySpec(),
                "counting": PolicySpec(Counting),
            },
            policy_mapping_fn=lambda agent, *further, **more: MAPPING[agent],
            policies_to_train=["left"],
            **multi_agent,
        )
        .debugging(seed=2)
    )


@pytest.fixture(scope="module", params=[0, 2])
def algorithm(request: pytest.FixtureRequest, session: None) -> Iterator[PPO]:
    """An algorithm whose lanes are here, and one whose lanes are in two actors."""
    made: PPO = settings(request.param).build()
    made.train()
    yield made
    made.stop()


def test_all_workers_have_all_policies(algorithm: PPO) -> None:
    found = algorithm.workers.foreach_worker(lambda worker: sorted(worker.policy_map))
    assert found == [["counting", "left", "right"]] * (1 + algorithm.workers.num_remote_workers())
    kinds = set(algorithm.workers.foreach_policy(lambda policy, policy_id: (policy_id, type(policy).__name__)))
    assert kinds == {("left", "PolicyView"), ("right", "PolicyView"), ("counting", "Counting")}
    gammas = algorithm.workers.foreach_worker(
        lambda worker: [worker.for_policy(lambda policy: policy.config["gamma"], name) for name in ("left", "right")]
    )
    assert {tuple(pair) for pair in gammas} == {(0.5, 0.99)}


def test_a_function_runs_for_the_policies_that_learn(algorithm: PPO) -> None:
    workers = algorithm.workers
    assert set(workers.foreach_policy_to_train(lambda policy, policy_id: policy_id)) == {"left"}
    local = workers.local_worker()
    assert local.foreach_trainable_policy(lambda policy, policy_id: policy_id) == ["left"]
    assert (local.get_policies_to_train(), local.is_policy_to_train("right")) == (["left"], False)


def test_workers_act_with_the_weights_of_the_learner(algorithm: PPO) -> None:
    everywhere = algorithm.workers.foreach_worker(lambda worker: worker.get_weights())
    for found in everywhere:
        assert list(found) == ["left", "right"]
        for policy_id, weights in algorithm.get_weights().items():
            for name, value in weights.items():
                np.testing.assert_array_equal(found[policy_id][name], value)
    zeros = {name: np.zeros_like(value) for name, value in algorithm.get_weights(["right"])["right"].items()}
    before = algorithm.get_weights(["right"])
    algorithm.set_weights({"right": zeros})
    for found in algorithm.workers.foreach_worker(lambda worker: worker.get_weights(["right"])):
        assert not any(value.any() for value in found["right"].values())
    algorithm.set_weights(before)


def test_a_policy_of_a_class_of_its_own_is_asked_as_the_others_are(algorithm: PPO) -> None:
    assert isinstance(algorithm.get_policy("counting"), Counting)
    assert algorithm.get_policy("counting").told == {}
    assert algorithm.compute_single_action(0, policy_id="counting") == 0
    assert algorithm.compute_single_action(0, [4], policy_id="counting") == (1, [5], {})
    assert algorithm.compute_actions([0, 1], policy_id="counting") == [0, 0]
    assert algorithm.compute_actions({"a": 0, "b": 0}, {"a": [1], "b": [2]}, policy_id="counting") == (
        {"a": 1, "b": 2},
        {"a": [2], "b": [3]},
        {},
    )
    with pytest.raises(UnknownPolicyError, match="'counting' is of a class of its own, Counting, and has no module"):
        algorithm.get_module("counting")
    with pytest.raises(UnknownPolicyError, match="'counting' is of a class of its own, and no parameters of it"):
        algorithm.get_weights(["counting"])
    with pytest.raises(UnknownPolicyError, match="'countin'; did you mean 'counting'"):
        algorithm.get_policy("countin")


def test_agents_act_by_the_policies_that_they_have() -> None:
    algorithm = settings(left=PolicySpec(Counting), count_steps_by="agent_steps").multi_agent(
        policies_to_train=["right"]
    )
    made = algorithm.build()
    chosen = made.compute_actions({"player_0": 0, "player_1": 1}, explore=False)
    assert chosen == {"player_0": 0, "player_1": made.compute_single_action(1, policy_id="right", explore=False)}
    assert made.get_policy("left") is made.workers.local_worker().policy_map["left"]
    assert made.get_policy("left") is not made.get_policy("counting")


def test_samples_of_workers_are_by_policy_and_policies_learn_from_them(algorithm: PPO) -> None:
    remote = algorithm.workers.remote_workers()
    batch = kernel.get(remote[0].sample.remote()) if remote else algorithm.workers.local_worker().sample()
    assert isinstance(batch, MultiAgentBatch) and set(batch.policy_batches) == {"left", "right"}
    for part in batch.policy_batches.values():
        part["advantages"], part["value_targets"] = part["rewards"], part["rewards"]
    before = algorithm.get_weights()
    found = algorithm.workers.local_worker().learn_on_batch(batch)
    assert list(found) == ["left"] and np.isfinite(found["left"]["learner_stats"]["total_loss"])
    after = algorithm.get_weights()
    changed = {
        name: any(not np.array_equal(value, after[name][key]) for key, value in weights.items())
        for name, weights in before.items()
    }
    assert changed == {"left": True, "right": False}


def test_the_workers_that_evaluate_have_all_policies(algorithm: PPO) -> None:
    algorithm.evaluate()
    found = algorithm.evaluation_workers.foreach_worker(lambda worker: [*worker.policy_map])
    assert found[0] == ["left", "right", "counting"]


def test_each_policy_is_exported_by_itself(algorithm: PPO, tmp_path: Path) -> None:
    algorithm.export_policy_checkpoint(str(tmp_path / "right"), policy_id="right")
    saved = SavedModule.from_checkpoint(tmp_path / "right")
    assert isinstance(saved, SavedModule)
    for name, value in algorithm.get_weights()["right"].items():
        np.testing.assert_array_equal(saved.get_state()[name], value)
    algorithm.export_policy_model(str(tmp_path / "left"), policy_id="left")
    assert (tmp_path / "left" / "policy.json").exists()
    with pytest.raises(UnknownPolicyError, match="'counting' is of a class of its own"):
        algorithm.export_policy_model(str(tmp_path / "counting"), policy_id="counting")
