"""SimpleQ: its loss is the paper's, it learns, gives the same bits anywhere, and goes on after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.simple_q import SimpleQ, SimpleQConfig, q_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.q_network import QNetwork, QNetworkOptions
from kernel_rllib.nn.backends import backend
from kernel_rllib.replay.replay import UniformReplay
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.testing.reference import q_learning
from kernel_rllib.testing.training import weights_after

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-9}


def config(**env_runners: Any) -> SimpleQConfig:
    """Return small settings with four lanes in all."""
    return (
        SimpleQConfig()
        .environment("CartPole-v1")
        .env_runners(
            num_envs=4,
            **{"rollout_fragment_length": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners},
        )
        .training(
            train_batch_size=16,
            num_steps_sampled_before_learning_starts=64,
            target_network_update_freq=40,
            tau=0.5,
            model={"fcnet_hiddens": [16]},
            store_buffer_in_checkpoints=True,
        )
        .reporting(min_sample_timesteps_per_iteration=100)
        .debugging(seed=3)
    )


def rows(dtype: Any, count: int = 12, width: int = 3, actions: int = 4) -> Batch:
    """Return a minibatch with targets near and far from values."""
    random = np.random.default_rng(1)
    return Batch(
        obs=random.normal(size=(count, width)).astype(dtype),
        actions=random.integers(0, actions, count),
        value_targets=(3 * random.normal(size=count)).astype(dtype),
        weights=random.random(count).astype(dtype),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["huber", "mse"])
@pytest.mark.parametrize("dueling", [False, True])
def test_the_loss_and_its_gradient_are_those_of_the_formulas(dtype: Any, kind: Any, dueling: bool) -> None:
    batch = rows(dtype)
    module = QNetwork(3, 4, QNetworkOptions(hidden=(), dueling=dueling))
    numpy = backend("numpy")
    vector = numpy.vector(np.random.default_rng(2).normal(size=module.table.size).astype(dtype))
    loss = q_loss(SimpleQConfig().training(td_error_loss_fn=kind))
    metrics, gradient = numpy.gradient(lambda nn, p: loss(nn, module, p, batch), vector, module.table)
    weights, slopes = (
        {name: view.astype(float) for name, view in module.table.views(v).items()} for v in (vector, gradient)
    )
    obs = batch["obs"].astype(float)
    values = obs @ weights["advantage/0/weight"] + weights["advantage/0/bias"]
    if dueling:
        states = obs @ weights["value/0/weight"] + weights["value/0/bias"]
        values = q_learning.dueling_values(states[:, 0], values)
    threshold = 1.0 if kind == "huber" else None
    arguments = batch["actions"].tolist(), batch["value_targets"].astype(float)
    expected = q_learning.q_loss(values, *arguments, weights=batch["weights"], huber_threshold=threshold)
    of_values = q_learning.q_loss_gradient(values, *arguments, batch["weights"], threshold or np.inf)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(metrics["total_loss"], expected.total, rtol=tolerance)
    np.testing.assert_allclose(metrics["td_errors"], expected.errors, rtol=tolerance, atol=tolerance)
    chosen = values[np.arange(12), batch["actions"]]
    found = [metrics[name] for name in ("mean_q", "min_q", "max_q")]
    np.testing.assert_allclose(found, [chosen.mean(), chosen.min(), chosen.max()], rtol=10 * tolerance)
    of_scores = of_values - of_values.mean(1, keepdims=True) if dueling else of_values
    np.testing.assert_allclose(slopes["advantage/0/weight"], obs.T @ of_scores, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(slopes["advantage/0/bias"], of_scores.sum(0), rtol=tolerance, atol=tolerance)
    if dueling:
        np.testing.assert_allclose(slopes["value/0/bias"], [of_values.sum()], rtol=tolerance, atol=tolerance)


def test_targets_are_rewards_and_the_best_value_of_the_network_that_stands_still() -> None:
    algorithm = SimpleQ(config())
    algorithm.train()
    batch = algorithm.draw()
    module, network = algorithm.learner.module, algorithm.learner.backend
    assert not np.array_equal(algorithm.target.vector, algorithm.learner.vector)
    outputs = network.evaluate(
        lambda nn, p: module.train(nn, p, {"obs": batch["new_obs"]}), algorithm.target.vector, module.table
    )
    expected = q_learning.q_targets(outputs["q_values"], batch["rewards"], batch[DISCOUNTS])
    np.testing.assert_allclose(algorithm.targets_of(batch), expected, rtol=1e-6)
    assert (batch[DISCOUNTS][batch["terminateds"]] == 0).all()


def test_the_target_network_follows_when_it_is_time() -> None:
    algorithm = SimpleQ(config().training(tau=1.0))
    followed = []
    for _ in range(12):
        algorithm.training_step()
        followed.append(np.array_equal(algorithm.target.vector, algorithm.learner.vector))
    # 16 steps a round; it learns from the fourth round on (64 steps), and follows at 64 and every 48 steps from there.
    assert followed == [True] * 4 + [False, False, True] * 2 + [False, False]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("runners", [1, 2, 4])
def test_any_number_of_runners_ends_with_the_same_bits(runners: int) -> None:
    alone, many = SimpleQ(config()), SimpleQ(config(num_env_runners=runners))
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@pytest.mark.parametrize("before", [1, 3])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, before: int) -> None:
    straight = SimpleQ(config())
    weights_after(before, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = SimpleQ(config())
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_without_the_buffer_in_it_a_checkpoint_is_small_and_training_goes_on(tmp_path: Path) -> None:
    first = SimpleQ(config().training(store_buffer_in_checkpoints=False))
    first.train()
    resumed = SimpleQ(config())
    resumed.restore(first.save(str(tmp_path / "checkpoint")))
    assert (len(first.replay), len(resumed.replay)) == (112, 0)
    assert resumed.train()["timesteps_total"] == 224
    assert len(resumed.replay) == 112


@pytest.mark.parametrize(
    ("given", "updates"),
    [({}, 4), ({"training_intensity": 4.0}, 16), ({"training_intensity": 0.25}, 1)],
    ids=["a batch a round", "four for each step", "one for four steps"],
)
def test_it_learns_as_often_as_settings_say(given: dict[str, Any], updates: int) -> None:
    algorithm = SimpleQ(config().training(**given))
    for _ in range(7):  # 16 steps each, from 64 on with updates
        algorithm.training_step()
    assert algorithm.learner.version == updates
    assert algorithm.env_steps_trained == 16 * updates


def test_results_say_how_values_and_errors_are() -> None:
    result = SimpleQ(config().training(training_intensity=0.5)).train()
    stats = result["info"]["learner"]["default_policy"]["learner_stats"]
    assert set(stats) == {
        "total_loss", "mean_q", "min_q", "max_q", "mean_td_error", "q_gradient_norm", "q_learning_rate"
    }  # fmt: skip
    assert stats["min_q"] <= stats["mean_q"] <= stats["max_q"]


def test_an_iteration_that_ends_before_an_update_reports_those_before_it() -> None:
    algorithm = SimpleQ(config().training(training_intensity=0.1))  # an update after 160 steps
    assert algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"] == {}
    reported = [algorithm.train()["learners"]["default_policy"] for _ in range(2)]
    assert "total_loss" in reported[0]
    assert algorithm.learner.version == 1
    assert reported[1] == reported[0]


def test_heads_may_have_hidden_layers() -> None:
    model = {"fcnet_hiddens": [16], "head_fcnet_hiddens": [8], "head_fcnet_activation": "tanh"}
    shapes = SimpleQ(config().training(model=model)).learner.module.table.shapes()
    assert shapes["advantage/0/weight"] == (16, 8) and shapes["advantage/1/weight"] == (8, 2)


class EveryRow(UniformReplay):
    """A buffer of a user's own, which gives the newest rows."""

    def __init__(self, capacity: int, age: int = 0) -> None:
        super().__init__(capacity)
        self.age = age


def test_a_buffer_of_the_users_own_is_used() -> None:
    for kind in (EveryRow, f"{__name__}.EveryRow"):
        settings = {"type": kind, "capacity": 99, "age": 5}
        replay: Any = SimpleQ(config().training(replay_buffer_config=settings)).replay
        assert (type(replay).__name__, replay.ring.capacity, replay.age) == ("EveryRow", 99, 5)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Reservoir", "there is no replay buffer 'Reservoir': take 'EpisodeReplayBuffer'"),
        (dict, "has the type dict, which lacks add, sample, update_priorities, state, set_state: a buffer needs all"),
    ],
)
def test_what_is_no_buffer_is_refused(kind: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SimpleQ(config().training(replay_buffer_config={"type": kind}))


@pytest.mark.parametrize(
    ("exploration", "said"),
    [
        ({"type": "Curious"}, "the type 'Curious', which does not explore discrete actions by their"),
        ({"type": "SoftQ", "sigma": 1}, "exploration_config has sigma, which SoftQ does not take: it takes temp"),
        ({"type": "SoftQ", "temperature": 0}, "the temperature of SoftQ is 0.0, but must be above 0"),
    ],
)
def test_explorations_that_it_does_not_have_are_refused(exploration: dict[str, Any], said: str) -> None:
    settings = config(batch_mode="complete_episodes").exploration(exploration_config=exploration)
    with pytest.raises(ConfigError, match=said):
        SimpleQ(settings)


def test_settings_for_sequences_are_refused() -> None:
    with pytest.raises(ConfigError, match="SimpleQConfig: .* this replays single steps; set replay_sequence_length to"):
        SimpleQ(config().training(replay_buffer_config={"replay_sequence_length": 5}))


def test_only_discrete_actions_have_values() -> None:
    with pytest.raises(ConfigError, match="SimpleQConfig learns a value for each action of a Discrete space, but"):
        SimpleQ(config().environment("Pendulum-v1"))


def test_without_exploration_the_best_known_action_is_taken() -> None:
    algorithm = SimpleQ(config().exploration(explore=False))
    algorithm.training_step()
    kept = algorithm.replay.state()  # type: ignore[attr-defined]
    module, network = algorithm.learner.module, algorithm.learner.backend
    values = network.evaluate(
        lambda nn, p: module.infer(nn, p, {"obs": kept["columns"]["obs"]}), algorithm.learner.vector, module.table
    )
    np.testing.assert_array_equal(kept["columns"]["actions"], values["q_values"].argmax(1))


def test_it_learns_to_balance_the_pole() -> None:
    settings = config().training(
        lr=1e-3, train_batch_size=64, training_intensity=32, target_network_update_freq=250, tau=1.0,
        num_steps_sampled_before_learning_starts=500, epsilon=[[0, 1.0], [3000, 0.04]],
        model={"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"},
    )  # fmt: skip
    algorithm = SimpleQ(
        settings.reporting(min_sample_timesteps_per_iteration=1000, metrics_num_episodes_for_smoothing=10)
    )
    best = 0.0
    for _ in range(12):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best >= 150:
            break
    assert best >= 150
