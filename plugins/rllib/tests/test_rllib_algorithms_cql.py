"""CQL: losses as the paper has them, low values of what nobody tried, the same bits again and after a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.cql import (
    CANDIDATE_LOG_DENSITIES,
    CANDIDATES,
    CQL,
    GAPS,
    CQLConfig,
    conservative_loss,
    imitation_loss,
    penalty_loss,
)
from kernel_rllib.algorithms.sac import SAC
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import conservative_q_learning as reference
from kernel_rllib.testing.reference import soft_actor_critic
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.testing.reference.rows import log_softmax
from kernel_rllib.testing.training import weights_after

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SQUASHED = for_space(spaces.Box(-1.0, 1.0, (2,)), box="squashed_gaussian")


def recorded(count: int = 300) -> Batch:
    """Return episodes of one step, whose actions are near 0 and earn what they are, higher where more is observed."""
    random = np.random.default_rng(5)
    obs = random.uniform(-1, 1, (count, 2)).astype(np.float32)
    actions = random.normal(0, 0.15, (count, 1)).clip(-0.4, 0.4).astype(np.float32)
    ends = np.ones(count, bool)
    return Batch(obs=obs, new_obs=obs, actions=actions, rewards=actions[:, 0], terminateds=ends, truncateds=~ends)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Return a folder with these steps in several lines."""
    writer = JsonWriter(str(tmp_path / "recorded"))
    for part in recorded().timeslices(50):
        writer.write(part)
    writer.close()
    return str(tmp_path / "recorded")


def config(folder: str, actions: spaces.Space[Any] | None = None, **training: Any) -> CQLConfig:
    """Return small settings that learn from a folder, in two lanes."""
    small = {"fcnet_hiddens": [16]}
    return (
        CQLConfig()
        .environment(
            observation_space=spaces.Box(-1, 1, (2,)),
            action_space=spaces.Box(-1, 1, (1,)) if actions is None else actions,
        )
        .env_runners(num_envs=2, num_env_runners=0, num_cpus_per_env_runner=0)
        .offline_data(input_=folder)
        .training(**{
            "train_batch_size": 32, "num_actions": 3, "bc_iters": 2, "q_model_config": small,
            "policy_model_config": small, "training_intensity": 2.0, "store_buffer_in_checkpoints": True, **training,
        })
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )  # fmt: skip


def continuous(dtype: Any, penalty: float | None = None) -> tuple[ActorQCritics, Any, Batch]:
    """Return a module of two critics over two numbers, parameters, and a minibatch with four candidates a row."""
    hidden = HiddenLayers((5,), "tanh")
    options = ActorQCriticsOptions(hidden, hidden, 2, 0.3, initial_penalty=penalty)
    module = ActorQCritics(3, 4, action_inputs=2, options=options)
    generator = np.random.default_rng(2)
    draw = lambda *shape: generator.standard_normal(shape).astype(dtype)
    batch = Batch({
        "obs": draw(6, 3), "actions": np.tanh(draw(6, 2)), "value_targets": draw(6), "action_noise": draw(6, 2),
        "weights": generator.random(6).astype(dtype), CANDIDATES: np.tanh(draw(6, 4, 2)),
        CANDIDATE_LOG_DENSITIES: draw(6, 4), GAPS: draw(6),
    })  # fmt: skip
    return module, 0.5 * draw(module.table.size), batch


def discrete(dtype: Any) -> tuple[ActorQCritics, Any, Batch]:
    """Return a module of two critics over three actions, parameters, and a minibatch."""
    hidden = HiddenLayers((5,), "tanh")
    options = ActorQCriticsOptions(hidden, hidden, 2, 0.3)
    module = ActorQCritics(3, 3, action_inputs=0, critic_outputs=3, options=options)
    _, _, batch = continuous(dtype)
    del batch[CANDIDATES], batch[CANDIDATE_LOG_DENSITIES]
    batch["actions"] = np.array([0, 2, 1, 1, 0, 2])
    return module, (0.5 * np.random.default_rng(1).standard_normal(module.table.size)).astype(dtype), batch


def in_numpy(module: ActorQCritics, vector: Any, function: Callable[..., Any]) -> Any:
    """Return what a function of operations and parameters gives in float64."""
    return NumpyBackend().evaluate(function, vector, module.table)


def gradients_agree(
    loss: Any, module: ActorQCritics, vector: Any, batch: Batch, expected: Callable[[Any], float], prefix: str
) -> Any:
    """Return what a loss reports; fail unless it, and its gradient, are those of a reference of all parameters."""
    metrics, gradient = NumpyBackend().gradient(
        lambda nn, p: loss(nn, module, p, batch), vector, module.table, trainable=(prefix,)
    )
    exact, tolerance = vector.astype(np.float64), TOLERANCE[vector.dtype.type]
    total = next(metrics[name] for name in ("critic_loss", "actor_loss", "alpha_prime_loss") if name in metrics)
    assert total == pytest.approx(expected(exact), rel=tolerance, abs=tolerance)
    (place,) = module.table.mask((prefix,))

    def of_part(part: Any) -> float:
        moved = exact.copy()
        moved[place] = part
        return expected(moved)

    slopes = numerical_gradient(of_part, exact[place], step=1e-5)
    np.testing.assert_allclose(gradient[place], slopes, atol=max(tolerance, 1e-8) * 10 * max(1, np.abs(slopes).max()))
    assert np.abs(slopes).max() > 0.01 and not np.delete(np.asarray(gradient), np.r_[place]).any()
    return metrics


@BOTH
@pytest.mark.parametrize("lagrangian", [False, True])
def test_the_loss_of_critics_is_the_reference(dtype: Any, lagrangian: bool) -> None:
    module, vector, batch = continuous(dtype, 0.4 if lagrangian else None)
    settings = CQLConfig().training(temperature=0.7, min_q_weight=3.0, lagrangian=lagrangian, lagrangian_thresh=1.5)
    exact = {name: column.astype(np.float64) for name, column in batch.items()}
    multiplier = math.exp(module.table.views(vector)["penalty/log"][0]) if lagrangian else 1.0

    def gaps_of(vector: Any) -> list[Any]:
        def asked(actions: Any) -> Any:
            return in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, exact["obs"], actions))

        candidates = [asked(exact[CANDIDATES][:, index]) for index in range(4)]
        return [
            (
                value,
                reference.conservative_gaps(
                    np.stack([each[critic] for each in candidates], axis=1), exact[CANDIDATE_LOG_DENSITIES], value, 0.7
                ),
            )
            for critic, value in enumerate(asked(exact["actions"]))
        ]

    def expected(vector: Any) -> float:
        return sum(
            reference.conservative_loss(
                value, exact["value_targets"], exact["weights"], gaps, 3.0, multiplier, 1.5 if lagrangian else 0.0
            )
            for value, gaps in gaps_of(vector)
        )

    metrics = gradients_agree(conservative_loss(settings), module, vector, batch, expected, "critic/")
    np.testing.assert_allclose(
        metrics[GAPS], np.mean([gaps for _, gaps in gaps_of(vector.astype(np.float64))], axis=0), rtol=1e-4, atol=1e-5
    )


@BOTH
def test_of_discrete_actions_all_values_are_held_down(dtype: Any) -> None:
    module, vector, batch = discrete(dtype)

    def expected(vector: Any) -> float:
        total = 0.0
        for of_all in in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"])):
            taken = of_all[np.arange(6), batch["actions"]]
            gaps = reference.conservative_gaps(of_all, np.zeros((6, 3)), taken)
            total += reference.conservative_loss(taken, batch["value_targets"], batch["weights"], gaps, 5.0, 1.0, 0.0)
        return total

    gradients_agree(conservative_loss(CQLConfig()), module, vector, batch, expected, "critic/")


@BOTH
def test_the_weight_of_the_penalty_rises_above_the_bound(dtype: Any) -> None:
    module, vector, batch = continuous(dtype, 0.4)
    above = 3.0 * float(batch[GAPS].astype(np.float64).mean()) + 2.0

    def expected(vector: Any) -> float:
        return -math.exp(module.table.views(vector)["penalty/log"][0]) * above

    metrics = gradients_agree(penalty_loss(3.0, -2.0), module, vector, batch, expected, "penalty/")
    assert above > 0 and metrics["alpha_prime_value"] > 0  # with a falling gradient, so that it rises
    module.table.views(vector)["penalty/log"][...] = 20.0  # which is beyond the most
    found, gradient = NumpyBackend().gradient(
        lambda nn, p: penalty_loss(3.0, -2.0)(nn, module, p, batch), vector, module.table, trainable=("penalty/",)
    )
    assert found["alpha_prime_value"] == pytest.approx(1e6) and not np.asarray(gradient).any()


@BOTH
def test_imitation_is_the_reference(dtype: Any) -> None:
    module, vector, batch = continuous(dtype)

    def expected(vector: Any) -> float:
        inputs = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
        _, drawn = soft_actor_critic.squashed_gaussian_actions(inputs, batch["action_noise"].astype(np.float64))
        unsquashed = np.arctanh(batch["actions"].astype(np.float64))
        noise = (unsquashed - inputs[:, :2]) / np.exp(inputs[:, 2:])
        _, given = soft_actor_critic.squashed_gaussian_actions(inputs, noise)
        alpha = math.exp(module.table.views(vector)["temperature/log"][0])
        return reference.imitation_policy_loss(drawn, given, alpha)

    gradients_agree(imitation_loss(SQUASHED), module, vector, batch, expected, "policy/")


def test_imitation_of_discrete_actions_is_the_reference() -> None:
    module, vector, batch = discrete(np.float64)

    def expected(vector: Any) -> float:
        logits = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
        logs = np.stack([log_softmax(row) for row in logits])
        alpha = math.exp(module.table.views(vector)["temperature/log"][0])
        given = logs[np.arange(6), batch["actions"]]
        return reference.imitation_policy_loss((np.exp(logs) * logs).sum(axis=1), given, alpha)

    gradients_agree(imitation_loss(Categorical(3)), module, vector, batch, expected, "policy/")


def test_candidates_are_even_of_the_policy_and_of_the_policy_after_the_step(folder: str) -> None:
    algorithm = CQL(config(folder, num_actions=50, bc_iters=0))
    algorithm.train()
    batch = algorithm.draw()
    batch["new_obs"] = batch["new_obs"] * 0 + 9
    algorithm.prepare(batch)
    actions, densities = batch[CANDIDATES], batch[CANDIDATE_LOG_DENSITIES]
    assert actions.shape == (32, 150, 1) and densities.shape == (32, 150) and actions.dtype == np.float32
    evenly = actions[:, :50]
    assert evenly.min() < -0.99 and evenly.max() > 0.99 and abs(float(evenly.mean())) < 0.05
    np.testing.assert_allclose(densities[:, :50], -math.log(2), rtol=1e-6)
    module, learner = algorithm.module, algorithm.learner
    for place, name in ((50, "obs"), (100, "new_obs")):
        inputs = learner.evaluate(lambda nn, p, n=name: module.train(nn, p, {"obs": batch[n]})["action_dist_inputs"])
        for column in (place, place + 49):
            given = actions[:, column]
            expected = learner.evaluate(
                lambda nn, p, i=inputs, a=given: algorithm.distribution.log_prob(nn, nn.constant(i), nn.constant(a))
            )
            np.testing.assert_allclose(densities[:, column], expected, rtol=1e-3, atol=1e-3)
    assert np.ptp(actions[:, 50:100], axis=1).min() > 0
    algorithm.stop()


@pytest.mark.parametrize("deterministic", [True, False])
def test_targets_are_without_the_entropy_unless_it_is_asked_for(folder: str, deterministic: bool) -> None:
    algorithm = CQL(config(folder, deterministic_backup=deterministic))
    algorithm.train()
    batch, draws = algorithm.draw(), algorithm.draws.bit_generator.state
    batch[DISCOUNTS] = np.full(32, 0.9, np.float32)
    found = algorithm.targets_of(batch)
    algorithm.draws.bit_generator.state = draws
    soft = SAC.targets_of(algorithm, batch)
    algorithm.draws.bit_generator.state = draws
    _, log_probs, alpha = algorithm.next_actions(batch)
    expected = soft + 0.9 * alpha * log_probs if deterministic else soft
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    algorithm.stop()


def values_at(algorithm: Any, action: float) -> float:
    """Return the mean of what the first critic gives for an action."""
    obs, actions = recorded(50)["obs"], np.full((50, 1), action, np.float32)
    found = algorithm.learner.evaluate(lambda nn, p: algorithm.module.q_values(nn, p, obs, actions))
    return float(found[0].mean())


def test_values_of_what_nobody_tried_are_held_down_and_the_policy_stays_near(folder: str) -> None:
    """More is better as far as anything was recorded: SAC believes it beyond, and CQL does not."""
    found = {}
    for name, weight in (("held down", 5.0), ("free", 0.0)):
        fast = {"actor_lr": 3e-3, "critic_lr": 3e-3, "alpha_lr": 3e-3, "initial_alpha": 0.05, "bc_iters": 0}
        made = config(folder, min_q_weight=weight, training_intensity=16.0, **fast)
        algorithm = CQL(made.reporting(min_sample_timesteps_per_iteration=500))
        algorithm.train()
        action = float(algorithm.compute_single_action(np.zeros(2, np.float32), explore=False)[0])
        found[name] = values_at(algorithm, 0.9) - values_at(algorithm, 0.0), action
        algorithm.stop()
    assert found["free"][0] > 0.3 and found["free"][1] > 0.6
    assert found["held down"][0] < -0.5 and abs(found["held down"][1]) < 0.5


def test_at_first_it_imitates(folder: str) -> None:
    algorithm = CQL(config(folder, bc_iters=10_000, actor_lr=3e-3, training_intensity=16.0, initial_alpha=0.01))
    result = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]
    algorithm.train(), algorithm.train(), algorithm.train()
    action = float(algorithm.compute_single_action(np.zeros(2, np.float32), explore=False)[0])
    assert abs(action) < 0.2 and {"actor_loss", "critic_loss", "conservative_gap", "alpha_value"} <= set(result)
    algorithm.stop()


@pytest.fixture(params=["continuous", "lagrangian", "discrete"])
def settings(request: pytest.FixtureRequest, folder: str, tmp_path: Path) -> Iterator[CQLConfig]:
    """Yield settings of each kind."""
    if request.param != "discrete":
        yield config(folder, lagrangian=request.param == "lagrangian")
        return
    writer = JsonWriter(str(tmp_path / "discrete"))
    writer.write(Batch(recorded(), actions=np.random.default_rng(1).integers(0, 3, 300)))
    writer.close()
    yield config(str(tmp_path / "discrete"), spaces.Discrete(3))


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(
    settings: CQLConfig, tmp_path: Path
) -> None:
    alone, two = CQL(settings), CQL(settings.copy(copy_frozen=False).env_runners(num_env_runners=2))
    weights_after(1, alone)
    path = alone.save(str(tmp_path / "kept"))
    expected = weights_after(2, alone)
    assert weights_after(3, two) == expected
    resumed = CQL(settings.copy(copy_frozen=False))
    resumed.restore(path)
    assert weights_after(2, resumed) == expected
    for algorithm in (alone, two, resumed):
        algorithm.stop()


def test_it_is_evaluated_in_a_simulator(tmp_path: Path) -> None:
    writer = JsonWriter(str(tmp_path))
    random = np.random.default_rng(1)
    obs = random.normal(size=(100, 3)).astype(np.float32)
    writer.write(
        Batch(
            obs=obs, new_obs=obs, actions=random.uniform(-2, 2, (100, 1)), rewards=np.ones(100),
            terminateds=np.zeros(100, bool), truncateds=np.arange(100) % 50 == 49,
        )
    )  # fmt: skip
    writer.close()
    made = config(str(tmp_path)).environment("Pendulum-v1", observation_space=None, action_space=None)
    algorithm = CQL(made.evaluation(evaluation_interval=1, evaluation_duration=1))
    found = algorithm.train()["evaluation"]
    assert found["episodes_this_iter"] == 1 and found["episode_reward_mean"] < 0
    algorithm.stop()


@pytest.mark.parametrize(
    ("generation", "rates"),
    [("current", (1e-4, 1e-3, 1e-3)), ("2.x", (3e-4, 3e-4, 3e-4)), ("1.x", (3e-5, 3e-4, 3e-4))],
)
def test_without_settings_it_is_that_of_rllib(generation: Any, rates: tuple[float, ...]) -> None:
    made = CQLConfig.from_dict(CQLConfig.default_dict(generation))
    expected: dict[str, Any] = {
        "bc_iters": 20_000, "temperature": 1.0, "num_actions": 10, "lagrangian": False, "lagrangian_thresh": 5.0,
        "min_q_weight": 5.0, "min_sample_timesteps_per_iteration": 0, "min_train_timesteps_per_iteration": 100,
    }  # fmt: skip
    assert {name: getattr(made, name) for name in expected} == expected
    assert (made.actor_lr, made.critic_lr, made.alpha_lr) == rates and made.deterministic_backup


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_actions": 0}, "num_actions is 0, but must be a whole number from 1 on"),
        ({"temperature": 0.0}, "temperature is 0.0, but must be a number above 0"),
        ({"lr": 0.5}, "lr=0.5 has no effect on CQL, each network of which has a rate; set actor_lr"),
    ],
)
def test_what_it_does_not_take_is_refused(wrong: dict[str, Any], said: str, folder: str) -> None:
    with pytest.raises(ConfigError, match=said):
        CQL(config(folder, **wrong))
