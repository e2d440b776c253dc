"""DQN with all parts of Rainbow: losses and targets are the papers', bits are the same anywhere, and it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import CHOICE, DQN, ONLINE, TARGET, DQNConfig, categorical_loss
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.modules.q_network import Q_LOGITS, QNetwork, QNetworkOptions
from kernel_rllib.nn.backends import backend
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import distributional_q_learning, q_learning
from kernel_rllib.testing.training import weights_after

RAINBOW: dict[str, Any] = {
    "noisy": True, "num_atoms": 11, "v_min": 0.0, "v_max": 50.0, "n_step": (1, 3), "double_q": True, "dueling": True,
    "replay_buffer_config": {"final_beta": 1.0, "beta_annealing_timesteps": 300},
}  # fmt: skip
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-9}


def config(parts: dict[str, Any], **env_runners: Any) -> DQNConfig:
    """Return small settings with these parts of Rainbow, and with four lanes in all."""
    return (
        DQNConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_envs=4,
            **{"rollout_fragment_length": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners},
        )
        .training(
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
def test_the_loss_of_distributions_and_its_gradient_are_those_of_the_formulas(dtype: Any) -> None:
    random = np.random.default_rng(1)
    atoms, actions, count = 5, 3, 9
    targets = random.random((count, atoms)) * (random.random((count, atoms)) < 0.7) + 1e-9 * (np.arange(atoms) == 0)
    batch = Batch(
        obs=random.normal(size=(count, 2)).astype(dtype),
        actions=random.integers(0, actions, count),
        value_targets=(targets / targets.sum(1, keepdims=True)).astype(dtype),
        weights=random.random(count).astype(dtype),
    )
    options = QNetworkOptions(hidden=(), dueling=False, atoms=atoms, v_min=-1.0, v_max=3.0)
    module, numpy = QNetwork(2, actions, options), backend("numpy")
    vector = numpy.vector(random.normal(size=module.table.size).astype(dtype))
    loss = categorical_loss()
    metrics, gradient = numpy.gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table)
    views = module.table.views(vector)
    logits = batch["obs"].astype(float) @ views["advantage/0/weight"] + views["advantage/0/bias"]
    cube = logits.reshape(count, actions, atoms)
    arguments = batch["actions"].tolist(), batch["value_targets"].astype(float)
    expected = distributional_q_learning.categorical_loss(cube, *arguments)
    slopes = distributional_q_learning.categorical_loss_gradient(cube, *arguments, batch["weights"])
    entropy = [-sum(m * np.log(m) for m in row if m > 0) for row in arguments[1]]
    divergences = expected.rows - entropy
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(metrics["td_errors"], divergences, rtol=10 * tolerance, atol=tolerance)
    np.testing.assert_allclose(metrics["total_loss"], (divergences * batch["weights"]).mean(), rtol=10 * tolerance)
    means = distributional_q_learning.categorical_means(cube, -1.0, 3.0)
    np.testing.assert_allclose(metrics["mean_q"], means[np.arange(count), batch["actions"]].mean(), rtol=10 * tolerance)
    found = module.table.views(gradient)["advantage/0/weight"]
    wanted = batch["obs"].astype(float).T @ slopes.reshape(count, -1)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def next_outputs(algorithm: DQN, batch: Batch, vector: Any, use: int) -> dict[str, Any]:
    """Return what the network gives for the observations after a minibatch, with the noise of a use."""
    module = algorithm.learner.module
    inputs = {"obs": batch["new_obs"], "noise": algorithm.noise(use)}
    outputs: dict[str, Any] = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), vector)
    return outputs


def with_another_target(algorithm: DQN) -> Batch:
    """Train a little, make the target network choose otherwise than the other, and return a minibatch."""
    algorithm.train()
    random = np.random.default_rng(5)
    algorithm.target.vector[...] += 0.3 * random.normal(size=algorithm.target.vector.shape)
    return algorithm.draw()


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
def test_targets_of_values_are_those_of_the_formula(double: bool, noisy: bool) -> None:
    algorithm = DQN(config({"double_q": double, "noisy": noisy, "n_step": 3}))
    batch = with_another_target(algorithm)
    of_target = next_outputs(algorithm, batch, algorithm.target.vector, TARGET)["q_values"]
    online = next_outputs(algorithm, batch, algorithm.learner.vector, CHOICE)["q_values"]
    assert (of_target.argmax(1) != online.argmax(1)).any(), "the two choose alike, so that this would say nothing"
    expected = q_learning.q_targets(of_target, batch["rewards"], batch[DISCOUNTS], online if double else None)
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, rtol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_targets_of_distributions_are_those_of_the_algorithm(double: bool) -> None:
    algorithm = DQN(config({**RAINBOW, "double_q": double}))
    batch = with_another_target(algorithm)
    of_target = next_outputs(algorithm, batch, algorithm.target.vector, TARGET)[Q_LOGITS].astype(float)
    online = next_outputs(algorithm, batch, algorithm.learner.vector, CHOICE)[Q_LOGITS].astype(float)
    numbers = batch["rewards"], batch[DISCOUNTS], 0.0, 50.0
    expected = distributional_q_learning.categorical_targets(of_target, *numbers, online if double else None)
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, atol=1e-6)


def test_noise_of_the_three_uses_is_drawn_anew_for_each_update() -> None:
    algorithm = DQN(config({"noisy": True}))
    uses = ONLINE, TARGET, CHOICE
    rows = [algorithm.noise(use) for use in uses]
    algorithm.draw_noise()
    rows += [algorithm.noise(use) for use in uses]
    assert len({row.tobytes() for row in rows if row is not None}) == 6
    assert DQN(config({})).noise(ONLINE) is None


def test_noise_explores_by_itself_and_not_where_the_best_is_asked_for() -> None:
    algorithm = DQN(config({"noisy": True, "epsilon": 0.0, "sigma0": 5.0}))
    observation = [0.0, 0.1, 0.0, -0.1]
    assert {int(algorithm.compute_single_action(observation)) for _ in range(50)} == {0, 1}
    assert len({int(algorithm.compute_single_action(observation, explore=False)) for _ in range(50)}) == 1
    algorithm.training_step()
    assert set(algorithm.replay.state()["columns"]["actions"].tolist()) == {0, 1}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("parts", [{}, RAINBOW], ids=["plain", "rainbow"])
@pytest.mark.parametrize("runners", [1, 2, 4])
def test_any_number_of_runners_ends_with_the_same_bits(parts: dict[str, Any], runners: int) -> None:
    alone, many = DQN(config(parts)), DQN(config(parts, num_env_runners=runners))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@pytest.mark.parametrize(
    "parts",
    [{}, RAINBOW, {"noisy": True, "replay_buffer_config": {"worker_side_prioritization": True}}],
    ids=["plain", "rainbow", "priorities by noise"],
)
@pytest.mark.parametrize("before", [1, 3])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(
    tmp_path: Path, parts: dict[str, Any], before: int
) -> None:
    straight = DQN(config(parts))
    weights_after(before, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = DQN(config(parts))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_priorities_are_the_errors_of_the_last_update() -> None:
    algorithm = DQN(config({}))
    algorithm.train()
    assert isinstance(algorithm.replay, PrioritizedReplay)
    batch = algorithm.draw()
    errors = algorithm.errors_of(batch)
    assert (batch["weights"] <= 1).all() and batch["weights"].min() < batch["weights"].max()
    algorithm.replay.update_priorities(batch["batch_indexes"], errors)
    found = algorithm.replay.state()["priorities"][batch["batch_indexes"]]
    np.testing.assert_allclose(found, (np.abs(errors) + 1e-6) ** 0.6, rtol=1e-5)


def test_new_steps_may_begin_with_their_errors_as_priorities() -> None:
    algorithm = DQN(config({"replay_buffer_config": {"worker_side_prioritization": True}}))
    algorithm.training_step()
    kept = algorithm.replay.state()  # type: ignore[attr-defined]
    errors = algorithm.errors_of(Batch(kept["columns"]))
    np.testing.assert_allclose(kept["priorities"], (np.abs(errors) + 1e-6) ** 0.6, rtol=1e-5)


def test_weights_correct_for_priorities_more_and_more() -> None:
    algorithm = DQN(config(RAINBOW))
    assert isinstance(algorithm.replay, PrioritizedReplay)
    assert [algorithm.replay.beta.value(t) for t in (0, 150, 300, 900)] == pytest.approx([0.4, 0.7, 1.0, 1.0])


def test_a_minibatch_passes_the_users_function_before_it_is_learned_from() -> None:
    seen: list[Any] = []

    def change(batch: MultiAgentBatch, runners: Any, settings: AlgorithmConfig) -> MultiAgentBatch:
        seen.append((runners, settings))
        batch.policy_batches["default_policy"]["rewards"] += 7
        return batch

    algorithm, plain = DQN(config({"before_learn_on_batch": change})), DQN(config({}))
    for each in (algorithm, plain):
        each.training_step()
    np.testing.assert_array_equal(algorithm.draw()["rewards"], plain.draw()["rewards"] + 7)
    assert seen == [(algorithm.runners, algorithm.config)]


def test_heads_have_layers_of_their_own() -> None:
    # The counts that RLlib's documents promise of the heads of CartPole's network: values 66,306, states 66,049.
    settings = config({"hiddens": [256], "model": {"fcnet_hiddens": [256, 256]}})
    shapes = DQN(settings).learner.module.table.shapes()
    counts = {
        head: sum(int(np.prod(shape)) for name, shape in shapes.items() if name.startswith(head))
        for head in ("advantage", "value")
    }
    assert counts == {"advantage": 66_306, "value": 66_049}


@pytest.mark.parametrize(
    "parts",
    [{}, {**RAINBOW, "v_max": 100.0, "num_atoms": 51, "n_step": 3, "epsilon": 0.0}],
    ids=["plain", "rainbow"],
)
def test_it_learns_to_balance_the_pole(parts: dict[str, Any]) -> None:
    settings = config({
        "lr": 1e-3, "train_batch_size": 64, "training_intensity": 32, "target_network_update_freq": 250,
        "num_steps_sampled_before_learning_starts": 500, "epsilon": [[0, 1.0], [3000, 0.04]], "hiddens": [64],
        "model": {"fcnet_hiddens": [64], "fcnet_activation": "relu"}, **parts,
    }).reporting(min_sample_timesteps_per_iteration=1000, metrics_num_episodes_for_smoothing=10)  # fmt: skip
    algorithm = DQN(settings)
    best = 0.0
    for _ in range(12):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best >= 130:
            break
    assert best >= 130
