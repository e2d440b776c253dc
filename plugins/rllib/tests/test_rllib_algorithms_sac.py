"""SAC: losses as the papers have them, the same bits for any number of runners and after a checkpoint, and learning."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.sac import SAC, SACConfig, discrete_policy_loss, policy_loss, temperature_loss
from kernel_rllib.config.replay_config import PRIORITIZED, UNIFORM
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.errors import ConfigError, SpaceError
from kernel_rllib.modules.actor_q_critics import ActorQCritics, ActorQCriticsOptions, HiddenLayers
from kernel_rllib.nn.numpy_backend import NumpyBackend
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import soft_actor_critic as reference
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient
from kernel_rllib.training.registry import algorithm_class

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-5}
SQUASHED = for_space(spaces.Box(-1.0, 1.0, (2,)), box="squashed_gaussian")


def config(env: Any = "Pendulum-v1", **env_runners: Any) -> SACConfig:
    """Return small settings with four lanes in all."""
    small = {"fcnet_hiddens": [16]}
    return (
        SACConfig()
        .environment(env)
        .env_runners(**{"num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .training(
            train_batch_size=32,
            num_steps_sampled_before_learning_starts=16,
            q_model_config=small,
            policy_model_config=small,
            actor_lr=1e-3,
            store_buffer_in_checkpoints=True,
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=40)
        .debugging(seed=3)
    )


def weights_after(iterations: int, algorithm: SAC) -> bytes:
    """Return all parameters after some iterations, and the slower copy."""
    for _ in range(iterations):
        algorithm.train()
    return algorithm.learner.weights.tobytes() + algorithm.target.vector.tobytes()


def set_up(module: ActorQCritics, dtype: Any) -> tuple[np.ndarray, Callable[[np.ndarray], dict[str, np.ndarray]]]:
    """Return a vector of parameters, and what makes named parameters of one."""
    generator = np.random.default_rng(1)
    vector = (0.5 * generator.standard_normal(module.table.size)).astype(dtype)
    return vector, module.table.views


def gradients_agree(
    loss: Any, module: ActorQCritics, batch: Batch, expected: Callable[[np.ndarray], float], prefix: str, dtype: Any
) -> None:
    """Fail unless a loss, and its gradient, are those of a reference that is a function of all parameters."""
    vector, _ = set_up(module, dtype)
    metrics, gradient = NumpyBackend().gradient(
        lambda nn, p: loss(nn, module, p, batch), vector, module.table, trainable=(prefix,)
    )
    exact = vector.astype(np.float64)
    tolerance = TOLERANCE[dtype]
    value = next(metrics[name] for name in ("critic_loss", "actor_loss", "alpha_loss") if name in metrics)
    assert value == pytest.approx(expected(exact), rel=tolerance, abs=tolerance)
    (place,) = module.table.mask((prefix,))

    def of_part(part: np.ndarray) -> float:
        moved = exact.copy()
        moved[place] = part
        return expected(moved)

    slopes = numerical_gradient(of_part, exact[place], step=1e-5)
    np.testing.assert_allclose(gradient[place], slopes, atol=max(tolerance, 1e-8) * 10 * max(1, np.abs(slopes).max()))
    outside = np.delete(np.asarray(gradient), np.r_[place])
    assert not outside.any()


def continuous(dtype: Any) -> tuple[ActorQCritics, Batch]:
    """Return a module of two critics over two numbers, and a minibatch for it."""
    hidden = HiddenLayers((5,), "tanh", (4,), "silu")
    module = ActorQCritics(3, 4, action_inputs=2, options=ActorQCriticsOptions(hidden, hidden, 2, 0.3))
    generator = np.random.default_rng(2)
    draw = lambda *shape: generator.standard_normal(shape).astype(dtype)
    return module, Batch({
        "obs": draw(6, 3), "new_obs": draw(6, 3), "actions": np.tanh(draw(6, 2)), "rewards": draw(6),
        DISCOUNTS: np.array([0.9, 0, 0.9, 0.81, 0.9, 0], dtype), "value_targets": draw(6),
        "weights": generator.random(6).astype(dtype), "action_noise": draw(6, 2), "entropies": draw(6),
    })  # fmt: skip


def discrete(dtype: Any) -> tuple[ActorQCritics, Batch]:
    """Return a module of two critics over three actions, and a minibatch for it."""
    hidden = HiddenLayers((5,), "tanh")
    module = ActorQCritics(
        3, 3, action_inputs=0, critic_outputs=3, options=ActorQCriticsOptions(hidden, hidden, 2, 0.3)
    )
    _, batch = continuous(dtype)
    batch["actions"] = np.array([0, 2, 1, 1, 0, 2])
    return module, batch


def in_numpy(module: ActorQCritics, vector: np.ndarray, function: Callable[..., Any]) -> Any:
    """Return what a function of operations and parameters gives in float64."""
    return NumpyBackend().evaluate(function, vector, module.table)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_critics_is_the_reference(dtype: Any) -> None:
    module, batch = continuous(dtype)

    def expected(vector: np.ndarray) -> float:
        values = in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"], batch["actions"]))
        return sum(reference.soft_q_loss(value, batch["value_targets"], batch["weights"]) for value in values)

    gradients_agree(SAC.make_loss(Any), module, batch, expected, "critic/", dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_critics_of_discrete_actions_counts_those_that_were_taken(dtype: Any) -> None:
    module, batch = discrete(dtype)

    def expected(vector: np.ndarray) -> float:
        values = in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"]))
        taken = [value[np.arange(6), batch["actions"]] for value in values]
        return sum(reference.soft_q_loss(value, batch["value_targets"], batch["weights"]) for value in taken)

    gradients_agree(SAC.make_loss(Any), module, batch, expected, "critic/", dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_the_policy_is_the_reference(dtype: Any) -> None:
    module, batch = continuous(dtype)

    def expected(vector: np.ndarray) -> float:
        inputs = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
        actions, log_probs = reference.squashed_gaussian_actions(inputs, batch["action_noise"].astype(np.float64))
        values = in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"], actions))
        alpha = math.exp(module.table.views(vector)["temperature/log"][0])
        return reference.soft_policy_loss(log_probs, *values, alpha)

    gradients_agree(policy_loss(SQUASHED), module, batch, expected, "policy/", dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_a_discrete_policy_is_the_reference(dtype: Any) -> None:
    module, batch = discrete(dtype)

    def expected(vector: np.ndarray) -> float:
        logits = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
        values = in_numpy(module, vector, lambda nn, p: module.q_values(nn, p, batch["obs"]))
        alpha = math.exp(module.table.views(vector)["temperature/log"][0])
        return reference.discrete_soft_policy_loss(logits, *values, alpha)

    gradients_agree(discrete_policy_loss(Categorical(3)), module, batch, expected, "policy/", dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_loss_of_the_temperature_is_the_reference(dtype: Any) -> None:
    module, batch = continuous(dtype)

    def expected(vector: np.ndarray) -> float:
        log_alpha = module.table.views(vector)["temperature/log"][0]
        return reference.log_temperature_loss(log_alpha, -batch["entropies"].astype(np.float64), -2.0)

    gradients_agree(temperature_loss(-2.0), module, batch, expected, "temperature/", dtype)


def test_losses_report_entropies_for_the_temperature() -> None:
    module, batch = discrete(np.float64)
    vector, views = set_up(module, np.float64)
    loss = discrete_policy_loss(Categorical(3))
    metrics, _ = NumpyBackend().gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table, ("policy/",))
    logits = in_numpy(module, vector, lambda nn, p: module.train(nn, p, batch)["action_dist_inputs"])
    log_alpha = float(views(vector)["temperature/log"][0])
    expected = reference.discrete_temperature_loss(log_alpha, logits, 0.5)
    assert math.exp(log_alpha) * (metrics["entropies"].mean() - 0.5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_targets_are_those_of_the_paper(env: str) -> None:
    algorithm = SAC(config(env))
    algorithm.train()
    batch = algorithm.draw()
    draws = algorithm.draws.bit_generator.state
    found = algorithm.targets_of(batch)
    learner, module = algorithm.learner, algorithm.module
    inputs = learner.evaluate(lambda nn, p: module.train(nn, p, {"obs": batch["new_obs"]})["action_dist_inputs"])
    alpha = math.exp(learner.evaluate(lambda nn, p: p["temperature/log"][0]))

    def values(actions: Any = None) -> list[np.ndarray]:
        found = learner.evaluate(
            lambda nn, p: module.q_values(nn, p, batch["new_obs"], actions), algorithm.target.vector
        )
        return list(found)

    if env == "CartPole-v1":
        expected = reference.discrete_soft_q_targets(*values(), inputs, batch["rewards"], batch[DISCOUNTS], alpha)
    else:
        algorithm.draws.bit_generator.state = draws
        actions, log_probs = reference.squashed_gaussian_actions(inputs, algorithm.normals(32))
        told = values(actions.astype(np.float32))
        expected = reference.soft_q_targets(*told, log_probs, batch["rewards"], batch[DISCOUNTS], alpha)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert not np.array_equal(algorithm.learner.weights, algorithm.target.vector)


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(
    ("env", "runners"), [("Pendulum-v1", 1), ("Pendulum-v1", 2), ("Pendulum-v1", 4), ("CartPole-v1", 2)]
)
def test_any_number_of_runners_ends_with_the_same_bits(env: str, runners: int) -> None:
    alone, many = SAC(config(env)), SAC(config(env, num_env_runners=runners))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@pytest.mark.parametrize("before", [1, 3])
@pytest.mark.parametrize("replay", [UNIFORM, PRIORITIZED])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, before: int, replay: str) -> None:
    settings = config().training(n_step=(1, 3), replay_buffer_config={"type": replay, "capacity": 300})
    straight = SAC(settings)
    weights_after(before, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = SAC(settings.copy(copy_frozen=False))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    again = resumed.train()
    assert again["info"]["learner"] == result["info"]["learner"]
    assert again["timesteps_total"] == result["timesteps_total"]


def test_replay_has_actions_from_minus_one_to_one_and_the_environment_its_own() -> None:
    algorithm = SAC(config())
    envs = algorithm.runners.local.sampler._envs  # type: ignore[union-attr]
    told: list[np.ndarray] = []
    step = envs.step
    envs.step = lambda given: (told.append(np.array(given)), step(given))[1]  # type: ignore[method-assign]
    algorithm.train()
    kept = algorithm.replay.ring.columns["actions"][: len(algorithm.replay)]  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.concatenate(told), 2.0 * kept, rtol=1e-6)
    assert 0.5 < np.abs(kept).max() <= 1
    acted = algorithm.compute_single_action(np.zeros(3, np.float32), explore=False)
    assert acted.shape == (1,) and acted.dtype == np.float32


def test_without_normalising_actions_are_learned_as_the_environment_takes_them() -> None:
    algorithm = SAC(config().environment(normalize_actions=False))
    algorithm.train()
    kept = algorithm.replay.ring.columns["actions"][: len(algorithm.replay)]  # type: ignore[attr-defined]
    assert 1 < np.abs(kept).max() <= 2
    assert algorithm.target_entropy == pytest.approx(-1 + math.log(2))  # as much as -1 for actions half as wide


@pytest.mark.parametrize(
    ("env", "given", "expected"),
    [("Pendulum-v1", "auto", -1.0), ("CartPole-v1", "auto", 0.98 * math.log(2)), ("CartPole-v1", 0.1, 0.1)],
)
def test_the_temperature_is_adapted_to_reach_an_entropy(env: str, given: Any, expected: float) -> None:
    algorithm = SAC(config(env).training(target_entropy=given, initial_alpha=0.5, alpha_lr=0.01))
    found = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert found["target_entropy"] == expected
    assert (found["alpha_value"] > 0.5) == (found["entropy"] < expected)
    assert found["alpha_value"] != 0.5


def test_without_a_target_the_temperature_stays_as_it_is() -> None:
    algorithm = SAC(config().training(target_entropy=None, initial_alpha=0.25))
    found = algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"]
    assert "alpha_loss" not in found
    views = algorithm.module.table.views(algorithm.learner.weights)
    assert views["temperature/log"][0] == pytest.approx(math.log(0.25))


def test_each_network_has_a_rate_of_its_own() -> None:
    rates = {"actor_lr": 1e-3, "critic_lr": [[0, 1e-4], [1000, 3e-4]], "alpha_lr": 0.0}
    algorithm = SAC(config().training(**rates))  # type: ignore[arg-type]
    before = {name: view.copy() for name, view in algorithm.module.table.views(algorithm.learner.weights).items()}
    found = algorithm.train()["learners"]["default_policy"]
    after = algorithm.module.table.views(algorithm.learner.weights)
    assert found["policy_learning_rate"] == 1e-3 and found["temperature_learning_rate"] == 0
    assert 1e-4 < found["critic_learning_rate"] < 1.2e-4
    changed = {name for name, view in after.items() if not np.array_equal(view, before[name])}
    assert changed == set(after) - {"temperature/log"}


def test_the_slower_copy_is_of_critics_and_follows_by_tau() -> None:
    algorithm = SAC(config().training(tau=0.25, training_intensity=1.0))
    while not algorithm.updates:
        before = algorithm.target.vector.copy()
        algorithm.training_step()
    (critics,) = algorithm.module.table.mask(("critic/",))
    moved = before[critics] + 0.25 * (algorithm.learner.weights[critics] - before[critics])
    np.testing.assert_allclose(algorithm.target.vector[critics], moved, atol=1e-6)


def test_a_copy_that_follows_seldom_stands_still_between() -> None:
    algorithm = SAC(config().training(target_network_update_freq=1000, tau=1.0))
    algorithm.train()
    start = algorithm.target.vector.copy()
    algorithm.train()
    np.testing.assert_array_equal(algorithm.target.vector, start)


def test_mean_actions_take_the_place_of_draws_in_losses_where_the_settings_say_so() -> None:
    algorithm = SAC(config().training(_deterministic_loss=True))
    algorithm.train()
    batch = algorithm.draw()
    np.testing.assert_array_equal(algorithm.targets_of(batch), algorithm.targets_of(batch))
    usual = SAC(config())
    usual.train()
    batch = usual.draw()
    assert not np.array_equal(usual.targets_of(batch), usual.targets_of(batch))


def test_one_critic_will_do() -> None:
    algorithm = SAC(config().training(twin_q=False))
    algorithm.train()
    assert {name.split("/")[1] for name in algorithm.module.table if name.startswith("critic/")} == {"0"}


def test_networks_are_as_their_own_settings_say_or_else_those_of_the_model() -> None:
    settings = config().training(
        q_model_config={"fcnet_hiddens": [7], "head_fcnet_hiddens": [5], "fcnet_activation": "tanh"},
        policy_model_config={"fcnet_hiddens": [6]},
    )
    shapes = SAC(settings).module.table.shapes()
    assert shapes["critic/1/0/weight"] == (4, 7) and shapes["critic/1/more/0/weight"] == (7, 5)
    assert shapes["policy/body/0/weight"] == (3, 6) and shapes["policy/body/head/weight"] == (6, 2)
    shared = SACConfig().environment("Pendulum-v1").training(model={"fcnet_hiddens": [9]})
    shapes = SAC(shared).module.table.shapes()
    assert shapes["critic/0/0/weight"] == (4, 9) and shapes["policy/body/0/weight"] == (3, 9)


def test_priorities_are_the_errors_of_critics() -> None:
    replay = {"type": PRIORITIZED, "capacity": 1000, "worker_side_prioritization": True}
    algorithm = SAC(config().training(replay_buffer_config=replay, training_intensity=1e-9))
    for _ in range(9):
        algorithm.training_step()
    rows = len(algorithm.replay)
    assert rows == 36 and algorithm.updates == 0
    assert len(set(algorithm.replay.state()["priorities"].tolist())) == rows


class Pushing(gymnasium.Env[Any, Any]):
    """Takes actions of any space, and remembers the last one."""

    def __init__(self, env_config: dict[str, Any]) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,))
        self.action_space = env_config["space"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Refuse what is no action."""
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is no action of {self.action_space}")
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps == 5, False, {}


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=5),
        spaces.Box(np.array([-2, 0], np.float32), np.array([4, 1], np.float32)),
        spaces.Dict(arm=spaces.Box(0.0, 5.0, (2, 2)), leg=spaces.Tuple([spaces.Box(-7.0, -3.0, (1,))])),
    ],
    ids=["discrete", "box", "nested"],
)
def test_environments_get_actions_of_their_space(space: spaces.Space[Any]) -> None:
    settings = config(Pushing).environment(env_config={"space": space})
    algorithm = SAC(settings.exploration(exploration_config={"type": "StochasticSampling", "random_timesteps": 30}))
    algorithm.train()
    algorithm.train()
    assert space.contains(algorithm.compute_single_action(np.zeros(2, np.float32)))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.MultiDiscrete([2, 3]), "SAC can't learn actions of MultiDiscrete.*: Discrete, a Box of floats"),
        (spaces.Tuple([spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(2)]), "SAC can't learn actions of Tuple"),
        (spaces.Box(-np.inf, np.inf, (1,)), "finite bounds"),
    ],
)
def test_other_action_spaces_are_refused(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        SAC(config(Pushing).environment(env_config={"space": space}))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 1e-3}, "lr=0.001 has no effect on SAC, .*; set actor_lr, critic_lr, alpha_lr"),
        ({"_use_beta_distribution": True}, "_use_beta_distribution=True needs gradients"),
        (
            {"q_model_config": {"use_lstm": True}},
            "q_model_config sets use_lstm=True, and networks of dense layers have",
        ),
        ({"policy_model_config": {"made_up": 1}}, "policy_model_config sets made_up=1"),
    ],
)
def test_settings_that_nothing_acts_on_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config().training(**settings).validate()


def test_convolutions_are_refused_where_observations_are_rows() -> None:
    with pytest.raises(ConfigError, match="SACConfig: model conv_filters has no effect, as observations are rows of 3"):
        SAC(config().environment("Pendulum-v1").training(model={"conv_filters": [[4, 3, 3]]}))


def test_it_is_known_by_its_name() -> None:
    assert algorithm_class("SAC") is SAC


def quick(env: str, **training: Any) -> SACConfig:
    """Return settings that learn fast with small networks."""
    small = {"fcnet_hiddens": [32, 32]}
    settings = config(env, num_envs=1).reporting(min_sample_timesteps_per_iteration=1000)
    return settings.training(
        train_batch_size=64,
        num_steps_sampled_before_learning_starts=200,
        q_model_config=small,
        policy_model_config=small,
        actor_lr=3e-3,
        critic_lr=3e-3,
        alpha_lr=3e-3,
        replay_buffer_config={"type": UNIFORM, "capacity": 10_000},
        **training,
    ).evaluation(evaluation_duration=10, evaluation_config={"explore": False, "num_envs_per_env_runner": 10})


def evaluations(algorithm: SAC, iterations: int) -> Iterator[float]:
    """Train, iteration by iteration, and give the mean return of an evaluation after each."""
    for _ in range(iterations):
        algorithm.train()
        yield algorithm.evaluate()["episode_reward_mean"]


def test_it_learns_to_swing_the_pendulum_up() -> None:
    algorithm = SAC(quick("Pendulum-v1", gamma=0.95, tau=0.01))
    assert any(value >= -250 for value in evaluations(algorithm, 3))  # about -1,200 at first


def test_it_learns_to_balance_the_pole_by_discrete_actions() -> None:
    algorithm = SAC(quick("CartPole-v1", tau=0.02, target_entropy=0.2))
    assert any(value >= 150 for value in evaluations(algorithm, 4))
