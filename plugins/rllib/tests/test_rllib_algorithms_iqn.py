"""IQN: network, loss and targets are the paper's, it takes risks as it is told, and its bits are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import CHOICE, TARGET
from kernel_rllib.algorithms.iqn import CHOICE_LEVELS, IQN, TARGET_LEVELS, IQNConfig, implicit_quantile_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.implicit_quantile_network import LEVELS, ImplicitQuantileNetwork, ImplicitQuantileOptions
from kernel_rllib.modules.quantile_network import QUANTILES
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.quantiles import quantile_midpoints
from kernel_rllib.testing.environments import Lottery
from kernel_rllib.testing.losses import loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference import implicit_quantiles as reference
from kernel_rllib.testing.training import weights_after

PARTS: dict[str, Any] = {
    "noisy": True, "n_step": (1, 3), "double_q": True, "dueling": True, "huber_threshold": 0.5,
    "risk_measure": "CVaR", "risk_eta": 0.5, "replay_buffer_config": {"worker_side_prioritization": True},
}  # fmt: skip
EACH_PARTS = pytest.mark.parametrize("parts", [{}, PARTS], ids=["plain", "all parts"])
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-8}


def config(parts: dict[str, Any], env: Any = "CartPole-v1", **env_runners: Any) -> IQNConfig:
    """Return small settings with these parts of Rainbow, and with four lanes in all."""
    return (
        IQNConfig()
        .environment(env)
        .env_runners(
            num_envs=4,
            **{"rollout_fragment_length": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners},
        )
        .training(
            num_quantiles=5,
            num_target_quantiles=6,
            num_action_quantiles=7,
            num_cosines=4,
            train_batch_size=16,
            num_steps_sampled_before_learning_starts=64,
            target_network_update_freq=40,
            hiddens=[8],
            model={"fcnet_hiddens": [16]},
            store_buffer_in_checkpoints=True,
        )
        .training(**parts)
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )


def network(observations: int, actions: int, **options: Any) -> tuple[ImplicitQuantileNetwork, Any]:
    """Return a network without layers before its heads, and random parameters."""
    module = ImplicitQuantileNetwork(
        observations, actions, ImplicitQuantileOptions(**{"hidden": (), "dueling": False, "cosines": 4, **options})
    )
    return module, np.random.default_rng(1).normal(size=module.table.size)


@pytest.mark.parametrize("dueling", [False, True])
def test_quantiles_are_those_of_features_times_the_embeddings_of_levels(dueling: bool) -> None:
    random = np.random.default_rng(2)
    module, vector = network(3, 2, dueling=dueling)
    views = module.table.views(vector)
    obs, levels = random.normal(size=(4, 3)), random.random((4, 5))
    found = module.train(NumpyOps(np.float64), views, {"obs": obs, LEVELS: levels})[QUANTILES]
    assert found.shape == (4, 2, 5)
    embedding = views["embedding/weight"], views["embedding/bias"].tolist()
    for row in range(4):
        for i, level in enumerate(levels[row]):
            features = obs[row] * reference.level_embedding(float(level), *embedding)
            expected = features @ views["advantage/0/weight"] + views["advantage/0/bias"]
            if dueling:
                value = features @ views["value/0/weight"] + views["value/0/bias"]
                expected = value + expected - expected.mean()
            np.testing.assert_allclose(found[row, :, i], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [1.0, 0.3, 0.0])
def test_the_loss_and_its_gradient_are_those_of_the_formula(dtype: Any, threshold: float) -> None:
    random = np.random.default_rng(1)
    count, actions = 9, 3
    batch = Batch(
        obs=random.normal(size=(count, 2)).astype(dtype),
        actions=random.integers(0, actions, count),
        value_targets=random.normal(size=(count, 4)).astype(dtype),
        weights=random.random(count).astype(dtype),
        **{LEVELS: random.random((count, 5)).astype(dtype)},
    )
    module, exact = network(2, actions, dueling=True)
    vector = exact.astype(dtype)

    def twin(quantiles: Any) -> Any:
        levels, targets, weights = (batch[name].astype(float) for name in (LEVELS, "value_targets", "weights"))
        return reference.implicit_quantile_loss(
            quantiles, batch["actions"].tolist(), levels, targets, weights, threshold
        )

    metrics, gradient = loss_and_gradient(implicit_quantile_loss(threshold), module, vector, batch)
    total, slopes = twin_and_gradient(twin, [QUANTILES], module, vector, batch)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(metrics["total_loss"], total, rtol=tolerance)
    np.testing.assert_allclose(gradient, slopes, rtol=tolerance, atol=tolerance)
    inputs = {"obs": batch["obs"].astype(float), LEVELS: batch[LEVELS].astype(float)}
    found = module.train(NumpyOps(np.float64), module.table.views(vector.astype(float)), inputs)[QUANTILES]
    np.testing.assert_allclose(metrics["td_errors"], twin(found).rows, rtol=tolerance)
    means = found.mean(axis=2)[np.arange(count), batch["actions"]]
    np.testing.assert_allclose(metrics["mean_q"], means.mean(), rtol=tolerance, atol=tolerance)


def test_actions_have_the_mean_of_quantiles_at_drawn_levels_and_the_best_ones_at_even_levels() -> None:
    module, vector = network(3, 2, acting_levels=6, noisy=True)
    views = module.table.views(vector)
    assert module.noise_width == module.training_noise_width + 6 == 3 + 2 + 6
    random = np.random.default_rng(3)
    obs, noise = random.normal(size=(4, 3)), random.normal(size=(4, module.noise_width))
    nn = NumpyOps(np.float64)

    def values(given: Any, **noise: Any) -> Any:
        return module.train(nn, views, {"obs": obs, LEVELS: given, **noise})[QUANTILES].mean(axis=2)

    drawn = module.acting_levels(noise[:, 5:])
    assert ((drawn > 0) & (drawn < 1)).all() and ((drawn < 0.5) == (noise[:, 5:] < 0)).all()
    explored = module.explore(nn, views, {"obs": obs, "noise": noise})["q_values"]
    np.testing.assert_allclose(explored, values(drawn, noise=noise), rtol=1e-12)
    best = module.infer(nn, views, {"obs": obs, "noise": noise})["q_values"]
    np.testing.assert_allclose(best, values(quantile_midpoints(6)[None].astype(float)), rtol=1e-6)


def test_advantages_and_values_of_states_make_the_values_of_actions() -> None:
    module, vector = network(3, 2, acting_levels=6, dueling=True)
    views, nn = module.table.views(vector), NumpyOps(np.float64)
    obs = np.random.default_rng(3).normal(size=(4, 3))
    advantages, quantiles = module.advantages(nn, views, obs)
    states = module.state_values(nn, views, obs)
    assert quantiles.shape == (4, 2, 6) and states.shape == (4, 6)
    made = states.mean(axis=1)[:, None] + advantages - advantages.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(module.infer(nn, views, {"obs": obs})["q_values"], made, rtol=1e-6)


@pytest.mark.parametrize("double_q", [False, True])
def test_targets_are_those_of_the_algorithm(double_q: bool) -> None:
    algorithm = IQN(config({**PARTS, "double_q": double_q}))
    algorithm.train()
    random, module = np.random.default_rng(5), algorithm.learner.module
    algorithm.target.vector[...] += 0.3 * random.normal(size=algorithm.target.vector.shape)
    batch = algorithm.draw()
    assert [batch[name].shape for name in (LEVELS, TARGET_LEVELS, CHOICE_LEVELS)] == [(16, 5), (16, 6), (16, 7)]
    assert batch[LEVELS].max() > 0.5 > batch[CHOICE_LEVELS].max(), "actions are chosen by the worse half of returns"

    def quantiles(vector: Any, use: int, levels: str) -> Any:
        inputs = {"obs": batch["new_obs"], "noise": algorithm.noise(use), LEVELS: batch[levels]}
        return algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), vector)[QUANTILES]

    online = quantiles(algorithm.learner.vector, CHOICE, CHOICE_LEVELS).mean(2).argmax(1)
    standing = quantiles(algorithm.target.vector, TARGET, CHOICE_LEVELS).mean(2).argmax(1)
    assert (online != standing).any(), "they choose alike: this says nothing"
    best = online if double_q else standing
    after = quantiles(algorithm.target.vector, TARGET, TARGET_LEVELS)[range(16), best]
    expected = batch["rewards"][:, None] + batch[DISCOUNTS][:, None] * after
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, rtol=1e-6)


def test_it_learns_the_quantiles_of_known_returns_and_takes_risks_as_it_is_told() -> None:
    parts = {
        "num_quantiles": 8, "num_target_quantiles": 1, "num_cosines": 32, "huber_threshold": 0.0, "hiddens": [],
        "dueling": False, "epsilon": 1.0, "model": {"fcnet_hiddens": [32]}, "training_intensity": 32,
        "train_batch_size": 64, "lr": [[0, 0.01], [2000, 0.01], [4000, 0.0]], "grad_clip": None,
        "num_action_quantiles": 32, "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 10_000},
    }  # fmt: skip
    algorithm = IQN(config(parts, Lottery).reporting(min_sample_timesteps_per_iteration=4000))
    algorithm.train()
    module: Any = algorithm.learner.module
    levels = np.array([[0.1, 0.25, 0.4, 0.6, 0.75, 0.9]], np.float32)
    inputs = {"obs": np.ones((1, 1), np.float32), LEVELS: levels}
    found = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs))[QUANTILES][0]
    np.testing.assert_allclose(found[0], 10 * levels[0], atol=0.7)
    np.testing.assert_allclose(found[1], [2, 2, 2, 8, 8, 8], atol=0.7)

    def values(**risk: Any) -> Any:
        options = ImplicitQuantileOptions(**{**vars(module.options), **risk})
        other = ImplicitQuantileNetwork(1, 2, options)
        return algorithm.learner.evaluate(lambda nn, p: other.infer(nn, p, {"obs": inputs["obs"]}))["q_values"][0]

    np.testing.assert_allclose(values(), [5, 5], atol=0.5)
    np.testing.assert_allclose(values(risk_measure="CVaR", risk_eta=0.25), [1.25, 2], atol=0.5)
    for averse in ({"CVaR": 0.25}, {"Wang": -1.5}, {"Pow": -4.0}):
        ((measure, eta),) = averse.items()
        risky, safe = values(risk_measure=measure, risk_eta=eta)
        assert risky < safe, averse
    for seeking in ({"Wang": 1.5}, {"Pow": 4.0}):
        ((measure, eta),) = seeking.items()
        risky, safe = values(risk_measure=measure, risk_eta=eta)
        assert risky > safe, seeking


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_atoms": 51}, "num_atoms has no effect on IQN: it learns quantiles of returns, not chances of fixed"),
        ({"v_min": 0.0}, "v_min has no effect on IQN: .*num_quantiles says how many"),
        ({"td_error_loss_fn": "mse"}, "td_error_loss_fn has no effect on IQN: the loss of quantiles is Huber's"),
        ({"model": {"custom_model": "mine"}}, r"IQN does not act on model\['custom_model'\], as .*DQN.* do"),
        ({"risk_eta": 0.5}, "^IQNConfig: risk_eta=0.5 has no effect without risk_measure; set that too"),
        ({"risk_measure": "Wang"}, "^IQNConfig: risk_measure='Wang' has a parameter, and risk_eta is None; set that"),
        (
            {"risk_measure": "CVaR", "risk_eta": 2.0},
            "^IQNConfig: risk_eta=2.0 does not fit risk_measure='CVaR': CVaR is the mean of a share of the returns",
        ),
        (
            {"num_atoms": 2, "v_min": 1.0, "v_max": 0.0},
            "v_min=1.0 is not below v_max=0.0; returns of atoms",
        ),
    ],
)
def test_what_it_does_not_act_on_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        IQN(config(wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_quantiles": 0}, "num_quantiles is 0, but must be a whole number from 1 on"),
        ({"num_cosines": 0}, "num_cosines is 0, but must be a whole number from 1 on"),
        ({"risk_measure": "VaR"}, "risk_measure is 'VaR', but must be"),
    ],
)
def test_what_is_no_value_of_a_setting_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(wrong)


@pytest.mark.usefixtures("session")
@EACH_PARTS
def test_any_number_of_runners_ends_with_the_same_bits(parts: dict[str, Any]) -> None:
    alone, many = IQN(config(parts)), IQN(config(parts, num_env_runners=2))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@EACH_PARTS
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, parts: dict[str, Any]) -> None:
    straight = IQN(config(parts))
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = IQN(config(parts))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_without_settings_it_draws_as_many_levels_as_dopamine() -> None:
    config = IQNConfig()
    levels = (config.num_quantiles, config.num_target_quantiles, config.num_action_quantiles, config.num_cosines)
    assert levels == (64, 64, 32, 64) and (config.huber_threshold, config.risk_measure) == (1.0, None)
    config.training(num_quantiles=1, num_target_quantiles=1, num_action_quantiles=1, num_cosines=1).validate()


def test_the_best_action_is_always_the_same() -> None:
    algorithm = IQN(config({}))
    obs = np.array([0.01, -0.02, 0.03, 0.04], np.float32)
    assert len({int(algorithm.compute_single_action(obs, explore=False)) for _ in range(10)}) == 1
