"""Policies that come and go while an algorithm trains: in runners, checkpoints and evaluations, and with which bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.errors import ConfigError, ModuleError, UnknownPolicyError
from kernel_rllib.testing.multi_agent import TakingTurns
from kernel_rllib.training.algorithm import Algorithm

import kernel


def by_number(agent: Any, episode: Any, **further: Any) -> str:
    """Return a policy for each agent."""
    return f"p{agent}"


def first_or_third(agent: Any, episode: Any, **further: Any) -> str:
    """Return the first policy for agent 0, and for agent 1 the first and the third one by turns."""
    return "p0" if agent == 0 or episode.episode_id % 2 else "p2"


def only_third(agent: Any, *further: Any, **more: Any) -> str:
    """Return the third policy."""
    return "p2"


def small(kind: str = "PPO", **env_runners: Any) -> Any:
    """Return small settings of two agents that act by turns, with a policy each."""
    replaying = {"train_batch_size": 16, "num_steps_sampled_before_learning_starts": 16, "training_intensity": 1}
    made: Any = {
        "PPO": lambda: PPOConfig().training(train_batch_size=64, minibatch_size=32, num_epochs=1, lr=1e-2),
        "DQN": lambda: DQNConfig().training(hiddens=[8], store_buffer_in_checkpoints=True, **replaying),
    }[kind]()
    return (
        made.environment(TakingTurns)
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .multi_agent(policies=["p0", "p1"], policy_mapping_fn=by_number)
        .training(model={"fcnet_hiddens": [8]})
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=64)
        .debugging(seed=3)
    )


def changed(algorithm: Any) -> Any:
    """Return an algorithm that has trained, lost a policy, got another one, and trained again."""
    algorithm.train()
    algorithm.add_policy("p2", config={"gamma": 0.5}, policy_mapping_fn=first_or_third)
    algorithm.train()
    algorithm.remove_policy("p1")
    algorithm.train()
    return algorithm


def weights_of(algorithm: Any) -> dict[str, bytes]:
    """Return all parameters by policy."""
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


def policies_everywhere(algorithm: Any) -> set[tuple[str, ...]]:
    """Return the policies of each worker."""
    return {*algorithm.workers.foreach_worker(lambda worker: tuple(worker.policy_map))}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", ["PPO", "DQN"])
def test_any_number_of_runners_ends_with_the_same_bits(kind: str) -> None:
    alone = changed(small(kind).build())
    assert list(alone.policies) == ["p0", "p2"]
    assert alone.policies["p2"].config.gamma == 0.5
    for runners in (1, 2) if kind == "PPO" else (2,):
        many = changed(small(kind, num_env_runners=runners).build())
        assert policies_everywhere(many) == {("p0", "p2")}
        assert weights_of(many) == weights_of(alone)
        many.stop()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("recovery", ["recreate", "exact"])
def test_a_runner_that_takes_the_place_of_a_lost_one_has_the_policies(recovery: str) -> None:
    algorithm = changed(small(num_env_runners=2).fault_tolerance(recovery=recovery).build())
    for _, handle in algorithm.runners.actors():
        kernel.kill(handle)
    result = algorithm.train()
    assert policies_everywhere(algorithm) == {("p0", "p2")}
    assert set(result["learners"]) == {"p0", "p2"}
    if recovery == "exact":
        straight = changed(small().build())
        straight.train()
        assert weights_of(algorithm) == weights_of(straight)
    algorithm.stop()


@pytest.mark.parametrize("kind", ["PPO", "DQN"])
def test_an_algorithm_of_a_checkpoint_has_the_policies_that_were_added(tmp_path: Path, kind: str) -> None:
    straight = changed(small(kind).build())
    path = straight.save(str(tmp_path / "checkpoint"))
    result, expected = straight.train(), weights_of(straight)
    for again in (Algorithm.from_checkpoint(path, trust=True), _restored(small(kind), path)):
        assert list(again.policies) == ["p0", "p2"]
        assert again.train()["policy_reward_mean"] == result["policy_reward_mean"]
        assert weights_of(again) == expected
    untrusted = Algorithm.from_checkpoint(path, config={"policy_mapping_fn": only_third})
    assert untrusted.get_policy("p2").config["gamma"] == 0.5
    assert list(untrusted.train()["learners"]) == ["p2"]


def _restored(settings: Any, path: Any) -> Any:
    algorithm = settings.build()
    algorithm.restore(path)
    return algorithm


def test_a_policy_begins_as_another_one_is() -> None:
    algorithm = small().build()
    algorithm.train()
    first, weights = algorithm.get_policy("p0"), algorithm.get_weights(["p0"])["p0"]
    added = [
        algorithm.add_policy("copy", policy=first),
        algorithm.add_policy("of_class", type(first), policy_state=first.get_state()),
        algorithm.add_module("module", None, config_overrides={"lr": 0.1}),
    ]
    assert added[0] is algorithm.get_policy("copy")
    for name in ("copy", "of_class"):
        for key, value in algorithm.get_weights([name])[name].items():
            np.testing.assert_array_equal(value, weights[key])
    assert algorithm.get_policy("module").config["lr"] == 0.1
    algorithm.remove_module("module")
    assert list(algorithm.learners) == ["p0", "p1", "copy", "of_class"]
    with pytest.raises(ModuleError, match="parameter 'policy/0/weight' has shape"):
        algorithm.add_policy("wider", policy_state=first.get_state(), config={"model": {"fcnet_hiddens": [9]}})
    assert "wider" not in algorithm.policies


class Ones:
    """Chooses the same action always."""

    def __init__(self, *spaces_and_config: Any, action: int = 1) -> None:
        self.action = action

    def compute_actions(self, obs_batch: Any, state_batches: Any = None, **further: Any) -> Any:
        """Return the action for each row."""
        return [self.action] * len(obs_batch), state_batches, {}


@pytest.mark.usefixtures("session")
def test_policies_of_a_class_of_their_own_come_and_go_too(tmp_path: Path) -> None:
    algorithm = small(num_env_runners=1).multi_agent(policies=["p0"], policy_mapping_fn=lambda *_, **__: "p0").build()
    algorithm.train()
    algorithm.add_policy("ones", Ones, policies_to_train=["p0"], policy_mapping_fn=lambda agent, *_, **__: (
        "ones" if agent else "p0"
    ))  # fmt: skip
    algorithm.add_policy("zeros", policy=Ones(action=0))
    assert policies_everywhere(algorithm) == {("p0", "ones", "zeros"), ("ones", "zeros", "p0")}
    result = algorithm.train()
    result = algorithm.train()
    assert (list(result["learners"]), set(result["policy_reward_mean"])) == (["p0"], {"p0", "ones"})
    assert algorithm.compute_single_action(np.zeros(3, np.float32), policy_id="zeros") == 0
    path = algorithm.save(str(tmp_path / "checkpoint"))
    again = Algorithm.from_checkpoint(path, trust=True)
    assert again.compute_single_action(np.zeros(3, np.float32), policy_id="ones") == 1
    again.remove_policy("zeros")
    assert list(again.scripted) == ["ones"]
    for each in (algorithm, again):
        each.stop()


@pytest.mark.parametrize("everywhere", [True, False])
def test_evaluations_have_the_mapping_if_that_is_wanted(everywhere: bool) -> None:
    algorithm = small().evaluation(evaluation_duration=2, evaluation_config={"explore": False}).build()
    algorithm.evaluate()
    algorithm.add_policy("p2", policy_mapping_fn=only_third, evaluation_workers=everywhere)
    found = algorithm.evaluate()
    assert set(found["policy_reward_mean"]) == ({"p2"} if everywhere else {"p0", "p1"})


def test_who_learns_changes_as_it_is_said() -> None:
    algorithm = small().multi_agent(policies_to_train=["p0", "p1"]).build()
    algorithm.add_policy("p2", policy_mapping_fn=first_or_third)
    before = weights_of(algorithm)
    algorithm.train()
    algorithm.remove_policy("p1")
    result = algorithm.train()
    assert list(result["learners"]) == ["p0"]
    assert weights_of(algorithm)["p2"] == before["p2"]
    algorithm.remove_policy("p2", policy_mapping_fn=lambda *_, **__: "p0")
    assert list(algorithm.train()["learners"]) == ["p0"]


def test_the_only_policy_of_an_algorithm_can_be_left_behind() -> None:
    algorithm = PPO(small().multi_agent(policies=None, policy_mapping_fn=None))
    algorithm.train()
    algorithm.add_policy("p2", policy_mapping_fn=only_third)
    algorithm.remove_policy()
    result = algorithm.train()
    assert (list(result["learners"]), list(algorithm.get_weights())) == (["p2"], ["p2"])
    assert algorithm.compute_single_action(np.zeros(3, np.float32), explore=False) in (0, 1)


WIDE = spaces.Box(-1.0, 1.0, (7,), np.float32)
WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("add_policy", {"policy_id": "p1"}, ConfigError, "there is a policy 'p1' already: take another id"),
    ("add_policy", {"policy_id": "a/b"}, ConfigError, "'a/b' is no id of a policy"),
    ("add_policy", {"policy_id": "c", "observation_space": WIDE}, ConfigError, "no agent has it: that of agent 0 is"),
    ("add_policy", {"policy_id": "c", "policy_cls": Ones, "policy": Ones()}, ConfigError, "give one of them"),
    ("add_policy", {"policy_id": "c", "policy": object()}, ConfigError, "which has no compute_actions"),
    ("add_policy", {"policy_id": "c", "policy_cls": object}, ConfigError, "'c' has the class 'object', which has no"),
    ("add_policy", {"policy_id": "c", "policy_cls": Ones, "policy_state": {}}, ConfigError, "policy_state is for"),
    ("add_policy", {"policy_id": "c", "workers": [1]}, ConfigError, r"workers=\[...\]\) can't be honoured"),
    ("add_policy", {"policy_id": "c", "add_to_learners": False}, ConfigError, "add_to_learners=False can't be honour"),
    ("add_policy", {"policy_id": "c", "config": {"lr": "fast"}}, ConfigError, "lr is 'fast'"),
    ("add_policy", {"policy_id": "c", "policies_to_train": ["d"]}, ConfigError, "policies_to_train has 'd', which is"),
    ("remove_policy", {"policy_id": "p3"}, UnknownPolicyError, "no policy 'p3' to remove; there are p0, p1"),
    ("remove_policy", {"policy_id": "p1", "evaluation_workers": False}, ConfigError, "evaluation_workers=False can't"),
]  # fmt: skip


@pytest.fixture(scope="module")
def unchanged() -> Any:
    """An algorithm that nothing wrong changes."""
    made = small().build()
    made.train()
    return made


@pytest.mark.parametrize(("method", "given", "error", "message"), WRONG)
def test_what_can_not_be_is_refused_and_changes_nothing(
    unchanged: Any, method: str, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = weights_of(unchanged)
    with pytest.raises(error, match=message):
        getattr(unchanged, method)(**given)
    assert weights_of(unchanged) == before
    assert set(unchanged.train()["learners"]) == {"p0", "p1"}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("runners", [0, 1])
def test_a_mapping_that_still_names_a_removed_policy_is_an_error(runners: int) -> None:
    message = "policy_mapping_fn returned 'p1' for agent 1, and there is no policy of that id; there are p0"
    algorithm = small(num_env_runners=runners).build()
    algorithm.train()
    algorithm.remove_policy("p1")
    before = weights_of(algorithm)
    with pytest.raises(UnknownPolicyError, match=message):  # when the agent appears in the next episode
        algorithm.train()
    assert weights_of(algorithm) == before
    algorithm.add_policy("p1")
    assert set(algorithm.train()["learners"]) == {"p0", "p1"}
    algorithm.stop()


def test_policies_of_one_agent_and_the_last_one_are_refused() -> None:
    alone = small().environment("CartPole-v1").multi_agent(policies=None, policy_mapping_fn=None).build()
    with pytest.raises(ConfigError, match="add_policy is for environments with several agents, and PPOConfig has one"):
        alone.add_policy("p1")
    shared = PPO(small().multi_agent(policies=None, policy_mapping_fn=None))
    with pytest.raises(ConfigError, match="'default_policy' is the last one that can learn, and can't be removed"):
        shared.remove_policy()
    shared.add_policy("p2")
    with pytest.raises(ConfigError, match="all agents have the policy 'default_policy', as no policy_mapping_fn was"):
        shared.remove_policy()
