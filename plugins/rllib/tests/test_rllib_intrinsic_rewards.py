"""Curiosity and RND: their rewards and losses are the papers', the same bits anywhere and after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.a2c import A2CConfig
from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.algorithms.appo import APPOConfig
from kernel_rllib.algorithms.ddppo import DDPPOConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.impala import IMPALAConfig
from kernel_rllib.algorithms.pg import PGConfig
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.algorithms.sac import SACConfig
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Learner, Objective
from kernel_rllib.modules.actor_critic import ActorCriticOptions
from kernel_rllib.modules.intrinsic_networks import CuriosityNetwork, CuriosityOptions, DistillationNetwork
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.returns.gae import gae
from kernel_rllib.testing.gradients import finite_differences
from kernel_rllib.testing.reference import intrinsic_rewards as formulas
from kernel_rllib.testing.training import weights_after
from kernel_rllib.training.curiosity import Curiosity, CuriositySettings, curiosity_loss
from kernel_rllib.training.random_network_distillation import (
    RND,
    RNDSettings,
    distillation_loss,
)

HIDDEN = ActorCriticOptions(hidden=(5,), activation="tanh")
CURIOSITY = CuriosityOptions(4, HIDDEN, ((6,), "relu"), ((7,), "relu"))
KINDS: dict[str, dict[str, Any]] = {
    "Curiosity": {"type": "Curiosity", "feature_dim": 4, "inverse_net_hiddens": [4], "forward_net_hiddens": [4]},
    "RND": {"type": "RND", "embed_dim": 4, "distill_net_config": {"fcnet_hiddens": [4]}, "minibatch_size": 16},
    "RND past ends": {"type": "RND", "embed_dim": 4, "nonepisodic_returns": True},
}


def made(kind: str = "Curiosity", config: Any = PPOConfig, env: str = "CartPole-v1", **settings: Any) -> Any:
    """Return a small algorithm with four lanes in all."""
    lanes = {"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, "min_time_s_per_iteration": 0}
    learning: dict[str, Any] = {"train_batch_size": 64, "model": {"fcnet_hiddens": [8]}}
    if config is A3CConfig:
        del learning["train_batch_size"]
    if issubclass(config, PPOConfig):
        learning |= {"minibatch_size": 32, "num_epochs": 1}
    if config in (DQNConfig, SACConfig):
        learning |= {"num_steps_sampled_before_learning_starts": 32, "rollout_fragment_length": 8}
        learning |= {
            "train_batch_size": 8,
            "min_sample_timesteps_per_iteration": 64,
            "store_buffer_in_checkpoints": True,
        }
    given = {"env": env, "seed": 3, **lanes, **learning, "exploration_config": KINDS[kind], **settings}
    return config.from_dict(given).build()


def fragment(steps: int = 6, lanes: int = 2, valid: Any = None) -> Fragment:
    """Return steps of two lanes, of which one ended an episode."""
    draw = np.random.default_rng(2)
    flags = np.zeros((steps, lanes), bool)
    flags[2, 1] = True
    return Fragment(
        columns={
            "obs": draw.normal(size=(steps, lanes, 3)).astype(np.float32),
            "actions": draw.integers(2, size=(steps, lanes)),
            "rewards": draw.normal(size=(steps, lanes)).astype(np.float32),
            "terminateds": flags,
            "truncateds": np.zeros_like(flags),
        },
        last_obs=draw.normal(size=(lanes, 3)).astype(np.float32),
        final_at=np.array([[2, 1]]),
        final_obs=draw.normal(size=(1, 3)).astype(np.float32),
        lanes=np.arange(lanes),
        valid=valid,
    )


def streams(*purpose: Any) -> np.random.Generator:
    """Return the same stream for the same purpose."""
    return np.random.default_rng([len(str(part)) for part in purpose])


def learner_of(module: Any, loss: Any, trainable: tuple[str, ...] | None = None) -> Learner:
    """Return a learner of a network."""
    objective = Objective(loss, schedule(1e-2, "lr"), trainable=trainable)
    return Learner(module, backend("numpy"), {"it": objective}, np.random.default_rng(1))


def rows_of(found: Fragment) -> Batch:
    """Return a fragment's steps, with what follows them, in float64."""
    following = found.next_obs().reshape(-1, 3).astype(np.float64)
    batch = found.batch()
    return Batch(obs=batch["obs"].astype(np.float64), actions=batch["actions"], new_obs=following)


def curious(**settings: Any) -> Curiosity:
    """Return curiosity with small networks."""
    module = CuriosityNetwork((3,), for_space(spaces.Discrete(2)), CURIOSITY)
    given = CuriositySettings(minibatch_size=100, **settings)
    return Curiosity(learner_of(module, curiosity_loss(given.beta)), streams, given)


def distilling(**settings: Any) -> RND:
    """Return RND with small networks."""
    given = RNDSettings(minibatch_size=100, **settings)
    module = DistillationNetwork((3,), 4, HIDDEN, values=given.nonepisodic_returns)
    learner = learner_of(module, distillation_loss(values=given.nonepisodic_returns), ("predictor", "value"))
    return RND(learner, streams, given, (3,))


def curiosity_by_formulas(weights: Any, batch: Batch, beta: float) -> tuple[Any, float]:
    """Return the forward errors and the loss of a `CuriosityNetwork`, layer by layer."""

    def layers(name: str, last: str, activation: str, rows: Any) -> Any:
        hidden = formulas.dense(weights, f"{name}/0", rows, activation=activation)
        return formulas.dense(weights, f"{name}/{last}", hidden)

    before, after = (layers("features", "features", "tanh", batch[name]) for name in ("obs", "new_obs"))
    both = np.concatenate([before, after], axis=1)
    guesses = layers("inverse", "action", "relu", both)
    given = np.concatenate([before, np.eye(2)[batch["actions"]]], axis=1)
    foreseen = layers("forward", "features", "relu", given)
    return formulas.curiosity_losses(foreseen, after, guesses, batch["actions"], beta)


def test_rewards_of_curiosity_are_the_errors_of_foreseeing() -> None:
    found, curiosity = fragment(), curious(eta=0.3)
    weights = curiosity.learner.module.table.views(curiosity.learner.vector.copy())
    errors, loss = curiosity_by_formulas(weights, rows_of(found), 0.2)
    before = found.columns["rewards"].copy()
    told = curiosity.add_to([found], 0)
    np.testing.assert_allclose(found.columns["rewards"], before + 0.3 * errors.reshape(6, 2), rtol=1e-4, atol=1e-6)
    assert told["intrinsic_reward_mean"] == pytest.approx(0.3 * errors.mean(), rel=1e-4)
    assert told["curiosity_loss"] == pytest.approx(loss, rel=1e-5)


def test_the_gradient_of_curiosity_is_that_of_its_formula() -> None:
    found = rows_of(fragment())
    learner = curious().learner
    vector = learner.vector.astype(np.float64)

    _, gradient = learner.backend.gradient(
        lambda nn, p: curiosity_loss(0.2)(nn, learner.module, p, found), vector, learner.module.table, None
    )
    expected = finite_differences(
        lambda nn, p: (curiosity_by_formulas(p, found, 0.2)[1], {}), vector, learner.module.table
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-8)


def distillation_by_formulas(weights: Any, rows: Any) -> Any:
    """Return how far the features of the two networks are apart."""
    features = [
        formulas.dense(weights, f"{name}/features", formulas.dense(weights, f"{name}/0", rows, activation="tanh"))
        for name in ("predictor", "fixed")
    ]
    return formulas.distillation_errors(*features)


def test_rewards_of_rnd_are_errors_of_features_over_the_deviation_of_their_returns() -> None:
    found, rnd = fragment(), distilling(intrinsic_reward_coeff=0.5, intrinsic_gamma=0.9)
    weights = rnd.learner.module.table.views(rnd.learner.vector.copy())
    following = rows_of(found)["new_obs"]
    normal = np.clip((following - following.mean(axis=0)) / following.std(axis=0, ddof=1), -5, 5)
    errors = distillation_by_formulas(weights, normal).reshape(6, 2)
    expected = 0.5 * errors / formulas.deviation_of_returns(errors, 0.9)
    before = found.columns["rewards"].copy()
    told = rnd.add_to([found], 0)
    np.testing.assert_allclose(found.columns["rewards"], before + expected, rtol=1e-4)
    assert told["rnd_loss"] == pytest.approx(errors.mean(), rel=1e-4)


def test_the_fixed_network_stays_and_what_was_seen_is_worth_less() -> None:
    rnd = distilling(normalize=False, intrinsic_reward_coeff=1.0)
    fixed = rnd.learner.module.table.views(rnd.learner.vector)["fixed/0/weight"].copy()
    told = [rnd.add_to([fragment()], 0)["intrinsic_reward_mean"] for _ in range(60)]
    assert told[-1] < 0.5 * told[0]
    np.testing.assert_array_equal(rnd.learner.module.table.views(rnd.learner.vector)["fixed/0/weight"], fixed)


def test_returns_past_ends_give_advantages_of_their_own_and_leave_rewards_alone() -> None:
    found, rnd = fragment(), distilling(nonepisodic_returns=True, normalize=False, intrinsic_reward_coeff=2.0)
    weights = rnd.learner.module.table.views(rnd.learner.vector.copy())
    rewards = 2.0 * distillation_by_formulas(weights, rows_of(found)["new_obs"]).reshape(6, 2)

    def values(rows: Any) -> Any:
        hidden = formulas.dense(weights, "value/0", rows.reshape(-1, 3), activation="tanh")
        return formulas.dense(weights, "value/features", hidden).reshape(rows.shape[:2])

    here = values(found.columns["obs"])
    following = np.concatenate([here[1:], values(found.last_obs[None])])
    nothing = np.zeros((6, 2), bool)
    expected, targets = gae(rewards, here, following, nothing, nothing, gamma=0.99, lambda_=0.95)
    before = found.columns["rewards"].copy()
    told = rnd.add_to([found], 0)
    np.testing.assert_array_equal(found.columns["rewards"], before)
    np.testing.assert_allclose(found.columns["intrinsic_advantages"], expected, rtol=1e-4, atol=1e-6)
    assert told["rnd_vf_loss"] == pytest.approx(0.5 * ((here - targets) ** 2).mean(), rel=1e-4)


def test_what_is_no_step_gets_no_reward_and_is_not_learned_from() -> None:
    valid = np.ones((6, 2), bool)
    valid[3:, 0] = False
    cut, whole = fragment(valid=valid), fragment(valid=valid)
    whole.columns["obs"][3:, 0] = 9.0
    whole.last_obs[0] = cut.last_obs[0]
    for kind in (curious, distilling):
        found = []
        for part in (cut, whole):
            given = Fragment.of_arrays({**part.arrays(), "columns": dict(part.columns)})
            reward = kind()
            reward.add_to([given], 0)
            np.testing.assert_array_equal(given.columns["rewards"][3:, 0], part.columns["rewards"][3:, 0])
            found.append(reward.learner.weights.tobytes())
        assert found[0] == found[1]


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (2,))])
def test_curiosity_learns_to_guess_actions_of_each_kind(space: Any) -> None:
    module = CuriosityNetwork((3,), for_space(space), CURIOSITY)
    learner = learner_of(module, curiosity_loss(0.2))
    draw = np.random.default_rng(4)
    space.seed(5)
    actions = np.stack([np.asarray(space.sample()) for _ in range(64)])
    obs = draw.normal(size=(64, 3)).astype(np.float32)
    after = obs.copy()
    after[:, : max(actions[0].size, 1)] += 2 * actions.reshape(64, -1)
    batch = Batch(obs=obs, new_obs=after, actions=actions)
    told = [learner.update(batch)["curiosity_inverse_loss"] for _ in range(150)]
    assert told[-1] < 0.6 * told[0]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_runners_ends_with_the_same_bits(kind: str) -> None:
    alone, many = made(kind), made(kind, num_env_runners=2)
    assert weights_after(2, many) == weights_after(2, alone)
    assert many.intrinsic_reward.learner.weights.tobytes() == alone.intrinsic_reward.learner.weights.tobytes()
    many.stop()


@pytest.mark.parametrize(("kind", "config"), [*((kind, PPOConfig) for kind in KINDS), ("RND", DQNConfig)])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(kind: str, config: Any, tmp_path: Path) -> None:
    straight = made(kind, config)
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = made(kind, config)
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]
    assert result["info"]["learner"]["default_policy"]["learner_stats"]["intrinsic_reward_mean"] > 0


@pytest.mark.parametrize(("config", "env", "more"), [
    (A2CConfig, "CartPole-v1", {}),
    (PGConfig, "CartPole-v1", {"batch_mode": "complete_episodes"}),
    (IMPALAConfig, "CartPole-v1", {"rollout_fragment_length": 16}),
    (APPOConfig, "CartPole-v1", {"rollout_fragment_length": 16}),
    (DQNConfig, "CartPole-v1", {}),
    (SACConfig, "Pendulum-v1", {}),
    (PPOConfig, "Pendulum-v1", {}),
])  # fmt: skip
def test_algorithms_learn_from_intrinsic_rewards(config: Any, env: str, more: dict[str, Any]) -> None:
    algorithm = made("Curiosity", config, env, **more)
    told = algorithm.train()["learners"]["default_policy"]
    assert told["intrinsic_reward_mean"] > 0 and told["curiosity_forward_loss"] > 0
    algorithm.stop()


def test_actions_are_chosen_by_the_exploration_inside() -> None:
    inside = {**KINDS["RND"], "sub_exploration": {"type": "SoftQ", "temperature": 0.5}}
    algorithm = made("RND", DQNConfig, exploration_config=inside)
    assert type(algorithm.make_exploration()).__name__ == "SoftQ"
    assert type(made("RND", DQNConfig).make_exploration()).__name__ == "EpsilonGreedy"


def test_each_policy_has_a_novelty_of_its_own() -> None:
    policies = {"a": ({"exploration_config": KINDS["RND"]}), "b": {}}
    algorithm = made(
        "Curiosity", env=make_multi_agent("CartPole-v1"), env_config={"num_agents": 2}, exploration_config={},
        multiagent={
            "policies": {name: (None, None, None, own) for name, own in policies.items()},
            "policy_mapping_fn": lambda agent, *more, **named: "ab"[agent],
        },
    )  # fmt: skip
    told = algorithm.train()["learners"]
    assert "rnd_loss" in told["a"] and "rnd_loss" not in told["b"]


@pytest.mark.parametrize(("config", "settings", "message"), [
    (A3CConfig, KINDS["Curiosity"], "has the type 'Curiosity', whose rewards are made where one process learns"),
    (DDPPOConfig, KINDS["RND"], "has the type 'RND', whose rewards .*: take PPO, A2C, PG, IMPALA, APPO, SimpleQ"),
    (PPOConfig, {"type": "Curiosity", "betta": 1}, "has 'betta', which Curiosity does not take; did you mean 'beta'"),
    (PPOConfig, {"type": "RND", "size": 1}, "has 'size', which RND does not take; it takes embed_dim, distill_net_con"),
    (PPOConfig, {"type": "Curiosity", "beta": 1.5}, r"exploration_config has beta=1.5, but must be from 0 to 1"),
    (DQNConfig, KINDS["RND past ends"], "has nonepisodic_returns=True, which adds advantages of its own to those of a"),
    (PPOConfig, {"type": "RND", "sub_exploration": {"type": "SoftQ"}}, "has the type 'SoftQ', and this algorithm lea"),
])  # fmt: skip
def test_what_can_not_be_is_refused(config: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made("RND", config, exploration_config=settings, num_env_runners=1 if config in (A3CConfig, DDPPOConfig) else 0)


def test_a_class_of_ray_is_known_by_its_name() -> None:
    named = made("Curiosity", exploration_config={**KINDS["RND"], "type": "ray.rllib.utils.exploration.rnd.RND"})
    assert isinstance(named, PPO) and isinstance(named.intrinsic_reward, RND)
