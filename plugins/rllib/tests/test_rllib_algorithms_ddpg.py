"""DDPG and TD3: losses as the papers have them, the same bits for any number of runners and after a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ddpg import DDPG, DDPGConfig, policy_loss, with_l2
from kernel_rllib.algorithms.off_policy_actor_critic import critic_loss
from kernel_rllib.algorithms.td3 import TD3, TD3Config
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import deterministic_policy_gradient as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.training.registry import algorithm_class

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
BOUNDED = for_space(spaces.Box(np.array([-1, -3], np.float32), np.array([1, 5], np.float32)), box="deterministic")


def config(kind: type[DDPGConfig] = DDPGConfig, **env_runners: Any) -> DDPGConfig:
    """Return small settings with four lanes in all."""
    exploration = {"type": "OrnsteinUhlenbeckNoise" if kind is DDPGConfig else "GaussianNoise", "random_timesteps": 60}
    return (
        kind()
        .environment("Pendulum-v1")
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .training(
            train_batch_size=32,
            num_steps_sampled_before_learning_starts=16,
            actor_hiddens=[16],
            critic_hiddens=[16],
            store_buffer_in_checkpoints=True,
            replay_buffer_config={"capacity": 1000},
        )
        .exploration(exploration_config=exploration)
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=40)
        .debugging(seed=3)
    )


def weights_after(iterations: int, algorithm: DDPG) -> bytes:
    """Return all parameters after some iterations, and the slower copy."""
    for _ in range(iterations):
        algorithm.train()
    return algorithm.learner.weights.tobytes() + algorithm.target.vector.tobytes()


def module_and_batch(dtype: Any) -> tuple[ActorQCritics, Batch]:
    """Return a module of two critics over two numbers, and a minibatch for it."""
    hidden = HiddenLayers((5,), "tanh")
    module = ActorQCritics(3, 2, action_inputs=2, options=ActorQCriticsOptions(hidden, hidden, 2, None))
    generator = np.random.default_rng(2)
    return module, Batch({
        "obs": generator.standard_normal((6, 3)).astype(dtype),
        "actions": generator.standard_normal((6, 2)).astype(dtype),
        "value_targets": generator.standard_normal(6).astype(dtype),
        "weights": generator.random(6).astype(dtype),
    })  # fmt: skip


def gradients_agree(loss: Any, expected: Callable[[np.ndarray], float], prefix: str, dtype: Any) -> None:
    """Fail unless a loss, and its gradient, are those of a reference that is a function of all parameters."""
    module, batch = module_and_batch(dtype)
    vector = (0.5 * np.random.default_rng(1).standard_normal(module.table.size)).astype(dtype)

    def with_total(nn: Any, parameters: Any) -> Any:
        total, _ = loss(nn, module, parameters, batch)
        return total, {"total": total}

    metrics, gradient = NumpyBackend().gradient(with_total, vector, module.table, trainable=(prefix,))
    exact, tolerance = vector.astype(np.float64), TOLERANCE[dtype]
    assert metrics["total"] == pytest.approx(expected(exact), rel=tolerance, abs=tolerance)
    (place,) = module.table.mask((prefix,))

    def of_part(part: np.ndarray) -> float:
        moved = exact.copy()
        moved[place] = part
        return expected(moved)

    slopes = numerical_gradient(of_part, exact[place], step=1e-5)
    np.testing.assert_allclose(gradient[place], slopes, atol=max(tolerance, 1e-8) * 10 * max(1, np.abs(slopes).max()))
    assert not np.delete(np.asarray(gradient), np.r_[place]).any()


def q_values(vector: np.ndarray, actions: Any = None) -> list[np.ndarray]:
    """Return what both critics give in float64, for the actions of the minibatch where none are given."""
    module, batch = module_and_batch(np.float64)
    given = batch["actions"] if actions is None else actions
    found = NumpyBackend().evaluate(lambda nn, p: module.q_values(nn, p, batch["obs"], given), vector, module.table)
    return list(found)


def squares(nn: Any, errors: Any) -> Any:
    """Return the squares."""
    return nn.square(errors)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_the_loss_of_critics_is_the_reference(dtype: Any, threshold: float | None) -> None:
    batch = module_and_batch(dtype)[1].copy()

    def expected(vector: np.ndarray) -> float:
        first, second = q_values(vector, batch["actions"])
        return reference.critic_loss(first, batch["value_targets"], second, batch["weights"], threshold)

    loss = critic_loss(squares if threshold is None else lambda nn, errors: nn.huber(errors, threshold))
    gradients_agree(loss, expected, "critic/", dtype)


def acted(vector: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the actions of the policy in float64, by its formula."""
    module, batch = module_and_batch(dtype)
    given = NumpyBackend().evaluate(
        lambda nn, p: module.train(nn, p, {"obs": batch["obs"]})["action_dist_inputs"], vector, module.table
    )
    return np.array([-1, -3]) + np.array([2, 8]) * (1 + np.tanh(given)) / 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_the_policy_is_the_reference(dtype: Any) -> None:
    module, batch = module_and_batch(dtype)

    def expected(vector: np.ndarray) -> float:
        actions = acted(vector, dtype)
        values = NumpyBackend().evaluate(
            lambda nn, p: module.q_values(nn, p, batch["obs"], actions)[0], vector, module.table
        )
        return reference.actor_loss(values)

    gradients_agree(policy_loss(BOUNDED), expected, "policy/", dtype)


def test_squared_weights_are_added_but_not_those_of_biases_or_of_others() -> None:
    module, batch = module_and_batch(np.float64)

    def expected(vector: np.ndarray) -> float:
        first, second = q_values(vector)
        total = reference.critic_loss(first, batch["value_targets"], second, batch["weights"])
        weights = [view for name, view in module.table.views(vector).items() if "critic" in name and "weight" in name]
        return total + 0.5 * 0.1 * sum(float((weight**2).sum()) for weight in weights)

    gradients_agree(with_l2(critic_loss(squares), "critic/", 0.1), expected, "critic/", np.float64)
    plain = critic_loss(squares)
    assert with_l2(plain, "critic/", 0.0) is plain


@pytest.mark.parametrize(("algorithm", "kind"), [(DDPG, DDPGConfig), (TD3, TD3Config)])
def test_targets_are_those_of_the_papers(algorithm: type[DDPG], kind: type[DDPGConfig]) -> None:
    made = algorithm(config(kind).training(target_noise=0.6))
    made.train()
    batch, learner, module = made.draw(), made.learner, made.module
    draws = made.draws.bit_generator.state
    found = made.targets_of(batch)
    actions = np.tanh(
        learner.evaluate(
            lambda nn, p: module.train(nn, p, {"obs": batch["new_obs"]})["action_dist_inputs"], made.target.vector
        )
    )
    if algorithm is TD3:
        made.draws.bit_generator.state = draws
        noise = 0.6 * made.normals(32)
        assert (np.abs(noise) > 0.5).any() and (np.abs(actions + np.clip(noise, -0.5, 0.5)) > 0).any()
        actions = reference.smoothed_target_actions(actions, noise, 0.5, *made.bounds)  # type: ignore[misc]
    values = learner.evaluate(
        lambda nn, p: module.q_values(nn, p, batch["new_obs"], actions.astype(np.float32)), made.target.vector
    )
    expected = reference.critic_targets(values[0], batch["rewards"], batch[DISCOUNTS], *values[1:])
    assert len(values) == (2 if algorithm is TD3 else 1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("algorithm", "kind", "runners"),
    [(DDPG, DDPGConfig, 1), (DDPG, DDPGConfig, 2), (DDPG, DDPGConfig, 4), (TD3, TD3Config, 2)],
)
def test_any_number_of_runners_ends_with_the_same_bits(
    algorithm: type[DDPG], kind: type[DDPGConfig], runners: int
) -> None:
    alone, many = algorithm(config(kind)), algorithm(config(kind, num_env_runners=runners))
    assert weights_after(3, many) == weights_after(3, alone)
    many.stop()


@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize(("algorithm", "kind"), [(DDPG, DDPGConfig), (TD3, TD3Config)])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(
    tmp_path: Path, before: int, algorithm: type[DDPG], kind: type[DDPGConfig]
) -> None:
    straight = algorithm(config(kind))
    weights_after(before, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = algorithm(config(kind))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_the_policy_and_the_slower_copy_of_td3_follow_every_second_step_of_critics() -> None:
    made = TD3(config(TD3Config))
    policy, critics = (made.module.table.mask((prefix,))[0] for prefix in ("policy/", "critic/"))
    moved = []
    while len(moved) < 6:
        before, copy = made.learner.weights.copy(), made.target.vector.copy()
        updates = made.updates
        made.training_step()
        if made.updates == updates:
            continue
        after = made.learner.weights
        assert (after[critics] != before[critics]).any()
        moved.append(((after[policy] != before[policy]).any(), (made.target.vector != copy).any()))
    assert moved == [(False, False), (True, True)] * 3


def test_the_slower_copy_is_of_policy_and_critics() -> None:
    made = DDPG(config().training(tau=0.5))
    while not made.updates:
        before = made.target.vector.copy()
        made.training_step()
    np.testing.assert_allclose(made.target.vector, before + 0.5 * (made.learner.weights - before), atol=1e-6)


def test_noise_of_lanes_goes_on_with_a_checkpoint() -> None:
    made = DDPG(config())
    made.train()
    made.train()
    lanes = made.get_state()["runners"]["lanes"]
    assert all(np.abs(lane["noise"]["drift"]).min() > 0 for lane in lanes.values())


def test_replay_has_actions_from_minus_one_to_one() -> None:
    made = DDPG(config())
    made.train()
    kept = made.replay.ring.columns["actions"][: len(made.replay)]  # type: ignore[attr-defined]
    assert 0.5 < np.abs(kept).max() <= 1
    raw = DDPG(config().environment(normalize_actions=False))
    raw.train()
    kept = raw.replay.ring.columns["actions"][: len(raw.replay)]  # type: ignore[attr-defined]
    assert 1 < np.abs(kept).max() <= 2


def test_networks_and_losses_are_as_the_settings_say() -> None:
    settings = config().training(
        actor_hiddens=[7, 6],
        critic_hiddens=[5],
        actor_hidden_activation="tanh",
        use_huber=True,
        twin_q=True,
        l2_reg=0.0,
    )
    shapes = DDPG(settings).module.table.shapes()
    assert shapes["policy/body/1/weight"] == (7, 6) and shapes["critic/1/0/weight"] == (4, 5)
    assert "temperature/log" not in shapes


def test_without_exploration_the_policy_acts_alone() -> None:
    made = DDPG(config().exploration(explore=False))
    made.train()
    observed = made.replay.ring.columns["obs"][:1]  # type: ignore[attr-defined]
    first = made.replay.ring.columns["actions"][0]  # type: ignore[attr-defined]
    begun = DDPG(config()).learner
    given = begun.evaluate(lambda nn, p: begun.module.train(nn, p, {"obs": observed})["action_dist_inputs"])
    np.testing.assert_allclose(first, np.tanh(given)[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 1e-3}, "lr=0.001 has no effect on DDPG, .*; set actor_lr, critic_lr$"),
        ({"use_state_preprocessor": True}, "use_state_preprocessor=True puts the networks of `model`"),
    ],
)
def test_settings_that_nothing_acts_on_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config().training(**settings).validate()


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(SpaceError, match="TD3 can't learn actions of Discrete.*: a Box of floats"):
        TD3(config(TD3Config).environment("CartPole-v1"))


def test_they_are_known_by_their_names() -> None:
    assert algorithm_class("DDPG") is DDPG and algorithm_class("TD3") is TD3


@pytest.mark.parametrize(
    ("algorithm", "kind", "exploration"),
    [
        (DDPG, DDPGConfig, {"type": "OrnsteinUhlenbeckNoise", "ou_base_scale": 0.5, "final_scale": 1.0}),
        (TD3, TD3Config, {"type": "GaussianNoise", "stddev": 0.1, "final_scale": 1.0}),
    ],
)
def test_they_learn_to_swing_the_pendulum_up(
    algorithm: type[DDPG], kind: type[DDPGConfig], exploration: dict[str, Any]
) -> None:
    settings = config(kind, num_envs=1).training(
        train_batch_size=64,
        num_steps_sampled_before_learning_starts=200,
        actor_hiddens=[32, 32],
        critic_hiddens=[32, 32],
        actor_lr=3e-3 if kind is DDPGConfig else 1e-3,
        critic_lr=3e-3,
        gamma=0.95,
        tau=0.01,
        l2_reg=0.0,
        replay_buffer_config={"type": UNIFORM, "capacity": 10_000},
    )
    settings.exploration(exploration_config={**exploration, "random_timesteps": 500})
    settings.reporting(min_sample_timesteps_per_iteration=1000)
    settings.evaluation(evaluation_duration=10, evaluation_config={"explore": False, "num_envs_per_env_runner": 10})
    made = algorithm(settings)
    best = -2000.0
    for _ in range(4):
        made.train()
        best = max(best, made.evaluate()["episode_reward_mean"])
        if best >= -450:
            break
    assert best >= -450  # about -1,200 at first
