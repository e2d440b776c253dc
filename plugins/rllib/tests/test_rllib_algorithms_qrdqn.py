"""QR-DQN: loss and targets are the paper's, it learns the quantiles of known returns, and its bits are the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import CHOICE, TARGET
from kernel_rllib.algorithms.qrdqn import QRDQN, QRDQNConfig, quantile_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.q_network import QNetworkOptions
from kernel_rllib.modules.quantile_network import QUANTILES, QuantileNetwork
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.returns.quantiles import quantile_midpoints
from kernel_rllib.testing.environments import Lottery
from kernel_rllib.testing.losses import loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference import distributional_q_learning
from kernel_rllib.testing.training import weights_after

PARTS: dict[str, Any] = {
    "noisy": True, "n_step": (1, 3), "double_q": True, "dueling": True, "huber_threshold": 0.5,
    "replay_buffer_config": {"worker_side_prioritization": True},
}  # fmt: skip
EACH_PARTS = pytest.mark.parametrize("parts", [{}, PARTS], ids=["plain", "all parts"])
TOLERANCE = {np.float32: 1e-4, np.float64: 1e-9}


def config(parts: dict[str, Any], env: Any = "CartPole-v1", **env_runners: Any) -> QRDQNConfig:
    """Return small settings with these parts of Rainbow, and with four lanes in all."""
    return (
        QRDQNConfig()
        .environment(env)
        .env_runners(
            num_envs=4,
            **{"rollout_fragment_length": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners},
        )
        .training(
            num_quantiles=5,
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("dueling", [False, True])
def test_the_loss_and_its_gradient_are_those_of_the_formula(dtype: Any, threshold: float, dueling: bool) -> None:
    random = np.random.default_rng(1)
    count, actions = 9, 3
    batch = Batch(
        obs=random.normal(size=(count, 2)).astype(dtype),
        actions=random.integers(0, actions, count),
        value_targets=random.normal(size=(count, 4)).astype(dtype),
        weights=random.random(count).astype(dtype),
    )
    module = QuantileNetwork(2, actions, QNetworkOptions(hidden=(), dueling=dueling, atoms=5))
    vector = random.normal(size=module.table.size).astype(dtype)

    def twin(quantiles: Any) -> Any:
        given = quantiles, batch["actions"].tolist(), batch["value_targets"].astype(float)
        return distributional_q_learning.quantile_loss(*given, batch["weights"].astype(float), threshold)

    metrics, gradient = loss_and_gradient(quantile_loss(threshold), module, vector, batch)
    total, slopes = twin_and_gradient(twin, [QUANTILES], module, vector, batch)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(metrics["total_loss"], total, rtol=tolerance)
    np.testing.assert_allclose(gradient, slopes, rtol=tolerance, atol=tolerance)
    views = module.table.views(vector.astype(float))
    found = module.train(NumpyOps(np.float64), views, {"obs": batch["obs"].astype(float)})[QUANTILES]
    np.testing.assert_allclose(metrics["td_errors"], twin(found).rows, rtol=tolerance)
    means = found.mean(axis=2)[np.arange(count), batch["actions"]]
    np.testing.assert_allclose(metrics["mean_q"], means.mean(), rtol=tolerance, atol=tolerance)


def test_the_loss_is_as_large_below_a_target_as_the_level_says() -> None:
    module = QuantileNetwork(1, 1, QNetworkOptions(hidden=(), dueling=False, atoms=2))
    vector = np.zeros(module.table.size, np.float32)  # both quantiles, at the levels 1/4 and 3/4, are 0
    for target, expected in ((3.0, [0.25, 0.75]), (-3.0, [0.75, 0.25])):
        batch = Batch(
            obs=np.zeros((1, 1), np.float32),
            actions=np.zeros(1, int),
            value_targets=np.full((1, 1), target, np.float32),
            weights=np.ones(1, np.float32),
        )
        metrics, gradient = loss_and_gradient(quantile_loss(1.0), module, vector, batch)
        assert metrics["total_loss"] == pytest.approx(sum(expected) * 2.5)  # Huber's loss of 3
        slopes = module.table.views(gradient)["advantage/0/bias"]
        np.testing.assert_allclose(slopes, -np.sign(target) * np.array(expected), rtol=1e-6)


def with_known_quantiles(double_q: bool) -> QRDQN:
    """Return an algorithm whose networks give the same quantiles whatever they see; the one that learns chooses 1."""
    parts = {"num_quantiles": 4, "hiddens": [], "dueling": False, "double_q": double_q}
    algorithm = QRDQN(config(parts))
    table = algorithm.learner.module.table
    for vector, quantiles in (
        (algorithm.target.vector, [[8, 1, 2, 5], [3, 0, 4, 1]]),  # of means 4 and 2
        (algorithm.learner.vector, [[0, 0, 0, 0], [0, 0, 0, 1]]),
    ):
        vector[...] = 0
        table.views(vector)["advantage/0/bias"][...] = np.ravel(quantiles)
    return algorithm


@pytest.mark.parametrize(("double_q", "after"), [(False, [8, 1, 2, 5]), (True, [3, 0, 4, 1])])
def test_targets_of_known_quantiles_are_exact(double_q: bool, after: list[int]) -> None:
    algorithm = with_known_quantiles(double_q)
    batch = Batch(
        new_obs=np.ones((3, 4), np.float32),
        rewards=np.array([1, -2, 0.5], np.float32),
        **{DISCOUNTS: np.array([0.5, 0.25, 0], np.float32)},  # the last one has terminated
    )
    expected = np.array([[1], [-2], [0.5]]) + np.array([[0.5], [0.25], [0]]) * after
    np.testing.assert_array_equal(algorithm.targets_of(batch), expected)


@pytest.mark.parametrize("double_q", [False, True])
def test_targets_of_n_steps_with_noise_are_those_of_the_algorithm(double_q: bool) -> None:
    algorithm = QRDQN(config({**PARTS, "double_q": double_q}))
    algorithm.train()
    random, module = np.random.default_rng(5), algorithm.learner.module
    algorithm.target.vector[...] += 0.3 * random.normal(size=algorithm.target.vector.shape)
    batch = algorithm.draw()

    def quantiles(vector: Any, use: int) -> Any:
        inputs = {"obs": batch["new_obs"], "noise": algorithm.noise(use)}
        return algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), vector)[QUANTILES]

    of_target = quantiles(algorithm.target.vector, TARGET)
    online = quantiles(algorithm.learner.vector, CHOICE)
    assert (of_target.mean(2).argmax(1) != online.mean(2).argmax(1)).any(), "they choose alike: this says nothing"
    best = (online if double_q else of_target).mean(2).argmax(1)
    expected = batch["rewards"][:, None] + batch[DISCOUNTS][:, None] * of_target[range(16), best]
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, rtol=1e-6)


def test_it_learns_the_quantiles_of_known_returns() -> None:
    """Steps are few, so that quantiles of what was paid are about 0.1 beside those of the distribution."""
    parts = {
        "num_quantiles": 6, "huber_threshold": 0.0, "hiddens": [], "dueling": False, "epsilon": 1.0,
        "model": {"fcnet_hiddens": []}, "training_intensity": 32, "train_batch_size": 64,
        "lr": [[0, 0.1], [4000, 0.1], [8000, 0.0]], "grad_clip": None,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 10_000},
    }  # fmt: skip
    algorithm = QRDQN(config(parts, Lottery).reporting(min_sample_timesteps_per_iteration=8000))
    algorithm.train()
    module, inputs = algorithm.learner.module, {"obs": np.ones((1, 1), np.float32)}
    found = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs))[QUANTILES][0]
    np.testing.assert_allclose(found[0], 10 * quantile_midpoints(6), atol=0.5)
    np.testing.assert_allclose(found[1], [2, 2, 2, 8, 8, 8], atol=0.5)


def test_values_are_the_means_of_quantiles() -> None:
    algorithm = with_known_quantiles(double_q=False)
    policy: Any = algorithm.learner.module
    table = policy.table.views(algorithm.target.vector)
    for outputs in (policy.explore, policy.infer):
        found = outputs(NumpyOps(), table, {"obs": np.ones((2, 4), np.float32)})
        np.testing.assert_array_equal(found["q_values"], [[4, 2], [4, 2]])
    assert {int(algorithm.compute_single_action(np.ones(4), explore=False)) for _ in range(3)} == {1}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"num_atoms": 51},
            "num_atoms has no effect on QRDQN: it learns quantiles of returns, not chances of fixed",
        ),
        ({"v_min": 0.0}, "v_min has no effect on QRDQN: .*num_quantiles says how many"),
        ({"v_max": 100.0}, "v_max has no effect on QRDQN: "),
        (
            {"td_error_loss_fn": "mse"},
            "td_error_loss_fn has no effect on QRDQN: the loss of quantiles is Huber's",
        ),
        ({"model": {"custom_model": "mine"}}, r"QRDQN does not act on model\['custom_model'\], as .*DQN.* do"),
    ],
)
def test_what_it_does_not_act_on_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        QRDQN(config(wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"num_quantiles": 1}, "num_quantiles is 1, but must be a whole number from 2 on"),
        ({"huber_threshold": -1.0}, "huber_threshold is -1.0, but must be a number from 0 on"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(wrong).validate()


@pytest.mark.usefixtures("session")
@EACH_PARTS
def test_any_number_of_runners_ends_with_the_same_bits(parts: dict[str, Any]) -> None:
    alone, many = QRDQN(config(parts)), QRDQN(config(parts, num_env_runners=2))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@EACH_PARTS
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, parts: dict[str, Any]) -> None:
    straight = QRDQN(config(parts))
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = QRDQN(config(parts))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_priorities_are_the_losses_of_rows() -> None:
    algorithm = QRDQN(config(PARTS))
    algorithm.training_step()
    kept: Any = algorithm.replay.state()
    losses = algorithm.errors_of(Batch(kept["columns"]))
    assert (losses > 0).all()
    np.testing.assert_allclose(kept["priorities"], (losses + 1e-6) ** 0.6, rtol=1e-5)
