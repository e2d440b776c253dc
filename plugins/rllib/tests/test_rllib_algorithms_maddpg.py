"""MADDPG: losses and targets are the paper's, critics see all that agents see and do, bits are the same anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.maddpg import MADDPG, MADDPGConfig
from kernel_rllib.algorithms.maddpg_losses import (
    JUDGED_ACTIONS,
    JUDGED_OBS,
    UNIFORMS,
    JudgedActions,
    critic_loss,
    policy_loss,
)
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.games.two_step_game import TwoStepGame
from kernel_rllib.envs.multi_agent import ALL, MultiAgentEnv
from kernel_rllib.errors import ConfigError, EnvError, SpaceError
from kernel_rllib.modules.actor_q_critics import HiddenLayers
from kernel_rllib.modules.central_critic import AgentWithCentralCritic
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.replay.joint_transitions import column
from kernel_rllib.testing.losses import loss_and_gradient
from kernel_rllib.testing.multi_agent import TakingTurns
from kernel_rllib.testing.reference import central_critics as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.training.registry import algorithm_class


class Meeting(MultiAgentEnv):
    """Two agents on a line, who are to meet where a third one says; all of them have other spaces."""

    possible_agents = agents = ["tells", "left", "right"]
    observation_spaces = {
        "tells": spaces.Discrete(3),
        "left": spaces.Box(-9.0, 9.0, (4,), np.float32),
        "right": spaces.Box(-9.0, 9.0, (4,), np.float32),
    }
    action_spaces = {
        "tells": spaces.Discrete(3),
        "left": spaces.Box(-2.0, 2.0, (1,), np.float32),
        "right": spaces.Box(-2.0, 2.0, (1,), np.float32),
    }

    def __init__(self, env_config: Any = None) -> None:
        self._generator = np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._goal, self._time, self._said = int(self._generator.integers(3)), 0, 0
        self._places = self._generator.uniform(-1, 1, 2)
        return self._seen(), {}

    def step(self, actions: Any) -> Any:
        self._places = np.clip(self._places + 0.2 * np.array([actions["left"][0], actions["right"][0]]), -5, 5)
        self._said, self._time = int(actions["tells"]), self._time + 1
        distances = np.abs(self._places - (self._goal - 1))
        rewards = {"tells": -float(distances.sum()), "left": -float(distances[0]), "right": -float(distances[1])}
        over = self._time == 6
        return self._seen(), rewards, {ALL: False}, {ALL: over}, {}

    def _seen(self) -> dict[str, Any]:
        heard = np.eye(3, dtype=np.float32)[self._said]
        seen: dict[str, Any] = {"tells": self._goal}
        for name, place in zip(("left", "right"), self._places, strict=True):
            seen[name] = np.append(heard, np.float32(place))
        return seen


def config(env: Any = TwoStepGame, agents: Any = (0, 1), **settings: Any) -> MADDPGConfig:
    """Return small settings with a policy for each agent, and four copies of an environment in all."""
    of_runners = {name: settings.pop(name) for name in ("num_env_runners", "num_envs") if name in settings}
    policies = settings.pop("policies", [f"of_{agent}" for agent in agents])
    return (
        MADDPGConfig()
        .environment(env)
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **of_runners})
        .multi_agent(policies=policies, policy_mapping_fn=lambda agent, *_, **__: f"of_{agent}")
        .training(
            **{
                "train_batch_size": 16,
                "num_steps_sampled_before_learning_starts": 32,
                "training_intensity": 4,
                "actor_hiddens": [8],
                "critic_hiddens": [8],
                "store_buffer_in_checkpoints": True,
                **settings,
            }
        )
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )


def meeting(**settings: Any) -> MADDPGConfig:
    """Return settings for agents of three kinds."""
    return config(Meeting, Meeting.agents, **settings)


def weights_after(iterations: int, algorithm: Any) -> dict[str, bytes]:
    """Train for some iterations, and return all parameters by policy."""
    for _ in range(iterations):
        algorithm.train()
    return {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-2.0, 2.0, (2,), np.float32)])
def test_losses_and_their_gradients_are_those_of_the_formulas(space: Any) -> None:
    random = np.random.default_rng(1)
    actions, count, others = JudgedActions(space, normalised=True), 7, (2, 1)
    layers = HiddenLayers((5,), "tanh")
    module = AgentWithCentralCritic(
        4, actions.width, judged_observations=9, judged_actions=actions.width + 3, policy=layers, critic=layers
    )
    batch = Batch(
        obs=random.normal(size=(count, 4)),
        value_targets=random.normal(size=count),
        **{
            JUDGED_OBS: random.normal(size=(count, 9)),
            JUDGED_ACTIONS: random.normal(size=(count, actions.width + 3)),
            UNIFORMS: random.random((count, actions.width)),
        },
    )
    vector = random.normal(size=module.table.size)

    def stack(views: Any, *names: str) -> Any:
        return [(views[f"{name}/weight"], views[f"{name}/bias"]) for name in names]

    def values(views: Any, done: Any) -> Any:
        rows = np.concatenate([batch[JUDGED_OBS], done], axis=1)
        return reference.network(rows, stack(views, "critic/0/0", "critic/0/head"))[:, 0]

    def of_critic(parameters: Any) -> float:
        found = values(module.table.views(parameters), batch[JUDGED_ACTIONS])
        return reference.critic_loss(found, batch["value_targets"])

    at = module.table.views(vector)
    first = reference.network(batch["obs"], stack(at, "policy/body/0", "policy/body/head"))
    drawn = reference.gumbel_softmax(first, batch[UNIFORMS])
    rounding = np.eye(actions.width)[drawn.argmax(1)] - drawn if actions.is_discrete else 0.0

    def of_policy(parameters: Any) -> float:
        views = module.table.views(parameters)
        given = reference.network(batch["obs"], stack(views, "policy/body/0", "policy/body/head"))
        own = reference.gumbel_softmax(given, batch[UNIFORMS]) + rounding if actions.is_discrete else np.tanh(given)
        done = batch[JUDGED_ACTIONS].copy()
        done[:, others[0] : others[0] + actions.width] = own
        return reference.policy_loss(values(views, done), given, 0.3)

    for loss, expected, name in (
        (critic_loss, of_critic, "critic_loss"),
        (policy_loss(actions, others[0], 0.3), of_policy, "actor_loss"),
    ):
        metrics, gradient = loss_and_gradient(loss, module, vector, batch)
        assert metrics[name] == pytest.approx(expected(vector), rel=1e-9)
        np.testing.assert_allclose(gradient, numerical_gradient(expected, vector, 1e-5), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("local", [False, True])
def test_each_critic_learns_from_what_all_see_and_do(local: bool) -> None:
    algorithm = MADDPG(meeting(use_local_critic=local, gamma=0.9, target_network_update_freq=10_000))
    algorithm.train()
    seen: dict[str, Batch] = {}
    for name, policy in algorithm.policies.items():
        policy.target.vector[...] += 0.3 * np.random.default_rng(5).normal(size=policy.target.vector.shape)
        policy.learn_from = lambda batch, uniforms, name=name: seen.setdefault(name, batch) and {}  # type: ignore
    state = algorithm.draws.bit_generator.state
    algorithm.learn_once(list(algorithm.policies))
    algorithm.draws.bit_generator.state = state
    batch = algorithm.replay.sample(16, algorithm.draws)
    names = list(algorithm.policies)
    assert names == ["of_tells", "of_left", "of_right"]

    def numpy_of(policy: Any, function: Any) -> Any:
        return NumpyBackend().evaluate(function, policy.target.vector, policy.module.table)

    done, then = [], []
    for place, name in enumerate(names):
        policy: Any = algorithm.policies[name]
        after = {"obs": batch[column("new_obs", place)]}
        given = numpy_of(policy, lambda nn, p, policy=policy, after=after: policy.module.train(nn, p, after))
        logits = given["action_dist_inputs"]
        done.append(np.eye(3)[batch[column("actions", place)]] if place == 0 else batch[column("actions", place)])
        then.append(np.eye(3)[logits.argmax(1)] if place == 0 else np.tanh(logits))
    for place, name in enumerate(names):
        own, policy = seen[name], algorithm.policies[name]
        judged = [place] if local else range(3)
        np.testing.assert_array_equal(own["obs"], batch[column("obs", place)])
        expected = {
            JUDGED_OBS: [batch[column("obs", each)] for each in judged],
            JUDGED_ACTIONS: [done[each] for each in judged],
        }
        for kind, parts in expected.items():
            np.testing.assert_allclose(own[kind], np.concatenate(parts, axis=1), rtol=1e-6)
        after = np.concatenate([batch[column("new_obs", each)] for each in judged], axis=1)
        actions = np.concatenate([then[each] for each in judged], axis=1).astype(np.float32)
        values = numpy_of(policy, lambda nn, p, policy=policy, x=after, a=actions: policy.module.q_values(nn, p, x, a))
        assert set(batch[column("discounts", place)]) == {np.float32(0.9)}  # its episodes are cut
        expected_targets = reference.central_targets(batch[column("rewards", place)], np.full(16, 0.9), values)
        np.testing.assert_allclose(own["value_targets"], expected_targets, rtol=1e-5)


def test_steps_of_all_agents_stay_side_by_side() -> None:
    algorithm = MADDPG(config(n_step=2))
    algorithm.train()
    held = algorithm.replay.state()["columns"]
    for name in ("rewards", "discounts", "terminateds"):
        np.testing.assert_array_equal(held[column(name, 0)], held[column(name, 1)])
    states = [held[column("obs", place)].argmax(1) - 3 * place for place in range(2)]
    np.testing.assert_array_equal(*states)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("made", [config, meeting])
def test_any_number_of_runners_ends_with_the_same_bits(made: Any) -> None:
    alone = weights_after(2, MADDPG(made()))
    for runners in (1, 2):
        many = MADDPG(made(num_env_runners=runners))
        assert weights_after(2, many) == alone
        many.stop()


@pytest.mark.parametrize("made", [config, meeting])
def test_it_goes_on_after_a_checkpoint_with_the_same_bits(made: Any, tmp_path: Path) -> None:
    straight, resumed = MADDPG(made(n_step=2)), MADDPG(made(n_step=2))
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    assert weights_after(2, resumed) == weights_after(2, straight)


def test_one_agent_alone_goes_on_too(tmp_path: Path) -> None:
    settings = MADDPGConfig().environment("CartPole-v1").training(
        train_batch_size=16, num_steps_sampled_before_learning_starts=16, training_intensity=4, critic_hiddens=[8],
        store_buffer_in_checkpoints=True,
    ).reporting(min_sample_timesteps_per_iteration=50).debugging(seed=1)  # fmt: skip
    straight, resumed = MADDPG(settings.copy()), MADDPG(settings.copy())
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    assert weights_after(1, resumed) == weights_after(1, straight)
    assert isinstance(straight.compute_single_action(np.zeros(4, np.float32)), (int, np.integer))


def test_slower_copies_follow_a_part_of_the_way() -> None:
    algorithm = MADDPG(config(tau=0.25, target_network_update_freq=0))
    algorithm.train()
    policy: Any = algorithm.policies["of_1"]
    before = policy.target.vector.copy()
    algorithm.learn_once(["of_0"])
    np.testing.assert_allclose(policy.target.vector, before + 0.25 * (policy.learner.vector - before), rtol=1e-4)


def test_policies_that_are_not_to_train_stay_as_they_are() -> None:
    settings = config()
    settings.multi_agent(policies_to_train=["of_1"])
    algorithm = MADDPG(settings)
    before = {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}
    result = algorithm.train()
    after = {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}
    assert [after[name] == before[name] for name in ("of_0", "of_1")] == [True, False]
    assert set(result["learners"]) == {"of_1"}


def test_settings_of_networks_are_acted_on_policy_by_policy() -> None:
    own = {"use_local_critic": True, "actor_hiddens": [5], "critic_hiddens": [6], "agent_id": 1}
    policies = {"of_0": (None, None, None, {"agent_id": 0}), "of_1": (None, None, None, own)}
    algorithm = MADDPG(config(policies=policies))
    one, other = (algorithm.learners[name].module.table.shapes() for name in ("of_0", "of_1"))
    assert one["critic/0/0/weight"] == (2 * (6 + 2), 8)
    assert other["critic/0/0/weight"] == (6 + 2, 6)
    assert other["policy/body/0/weight"] == (6, 5)


def test_continuous_actions_are_explored_by_noise_unless_it_is_said_otherwise() -> None:
    def spread(**exploration: Any) -> float:
        settings = meeting(num_steps_sampled_before_learning_starts=10_000)
        if exploration:
            own = {name: {"exploration_config": exploration} for name in ("of_left", "of_right")}
            settings.multi_agent(algorithm_config_overrides_per_module=own)
        algorithm = MADDPG(settings)
        algorithm.train()
        held = algorithm.replay.state()["columns"]
        return float(np.std(held[column("actions", 1)] - held[column("actions", 2)]))

    assert spread() > 3 * spread(type="GaussianNoise", stddev=0.01, random_timesteps=0)


def test_agents_that_act_by_turns_are_refused() -> None:
    algorithm = MADDPG(config(TakingTurns))
    with pytest.raises(EnvError, match="did not act in .* step.*, and all are learned from together: let all agents"):
        algorithm.train()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_step": (1, 3)}, r"n_step=\(1, 3\) is drawn for each agent, but agents are replayed together"),
        ({"lr": 0.1}, "lr=0.1 has no effect on MADDPG, each network of which has a rate; set actor_lr, critic_lr"),
        ({"use_state_preprocessor": True}, "give their layers to actor_hiddens and critic_hiddens"),
        ({"replay_buffer_config": {"type": "PrioritizedEpisodeReplayBuffer"}}, "asks for more than its capacity"),
        ({"model": {"fcnet_hiddens": [8]}}, "give the layers to actor_hiddens and critic_hiddens"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MADDPG(config(**settings))


def test_actions_without_a_gradient_are_refused() -> None:
    with pytest.raises(SpaceError, match="MADDPG can't learn actions of MultiBinary.*: a Discrete space or a Box"):
        JudgedActions(spaces.MultiBinary(3), normalised=True)


def test_policies_stay_the_same_while_training() -> None:
    algorithm = MADDPG(config())
    with pytest.raises(ConfigError, match="policies can't come and go while training; build a new algorithm"):
        algorithm.add_policy("third", observation_space=spaces.Discrete(6), action_space=spaces.Discrete(2))


def test_it_has_the_name_of_contrib_too() -> None:
    assert algorithm_class("contrib/MADDPG") is MADDPG
