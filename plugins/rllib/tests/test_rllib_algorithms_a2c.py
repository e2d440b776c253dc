"""A2C: its loss is the paper's, micro-batches add up to the batch, the same bits anywhere and after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.a2c import A2C, A2CConfig
from kernel_rllib.algorithms.a3c import A3CConfig, actor_critic_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.errors import ConfigError, NumericError
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.testing.losses import loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference.actor_critic import actor_critic_loss as formula
from kernel_rllib.testing.reference.rows import categorical_terms, gaussian_terms
from kernel_rllib.testing.training import weights_after

LSTM = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}
KINDS: dict[str, dict[str, Any]] = {
    "steps": {},
    "memory": {"model": LSTM},
    "episodes": {"batch_mode": "complete_episodes"},
    "micro-batches": {"microbatch_size": 16},
    "schedules": {"lr": [[0, 1e-2], [200, 1e-3]], "entropy_coeff": [[0, 0.1], [200, 0.0]]},
}


def made(kind: str = "steps", **settings: Any) -> A2C:
    """Return a small algorithm with four lanes in all."""
    small = {
        "env": "CartPole-v1",
        "seed": 3,
        "num_envs": 4,
        "num_env_runners": 0,
        "num_cpus_per_env_runner": 0,
        "min_time_s_per_iteration": 0,
        "train_batch_size": 64,
        "lr": 1e-2,
        "model": {"fcnet_hiddens": [16]},
    }
    return A2C({**small, **KINDS[kind], **settings})


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("kind", ["softmax", "gaussian"])
@pytest.mark.parametrize("use_critic", [True, False])
def test_loss_and_gradient_are_those_of_the_formulas(kind: str, use_critic: bool, dtype: Any, error: float) -> None:
    draw = np.random.default_rng(1)
    space: Any = spaces.Discrete(4) if kind == "softmax" else spaces.Box(-1, 1, (2,))
    distribution = for_space(space)
    actions = draw.integers(4, size=40) if kind == "softmax" else draw.normal(size=(40, 2)).astype(dtype)
    terms = categorical_terms if kind == "softmax" else gaussian_terms
    batch = Batch(
        obs=draw.normal(size=(40, 3)).astype(dtype),
        actions=actions,
        advantages=draw.normal(size=40).astype(dtype),
        value_targets=draw.normal(size=40).astype(dtype),
    )
    advantages, targets = (batch[name].astype(np.float64) for name in ("advantages", "value_targets"))
    module = ActorCritic(3, distribution.parameter_size, options=ActorCriticOptions(hidden=(5,)))
    vector = draw.normal(0, 0.3, module.table.size).astype(dtype)

    def twin(action_dist_inputs: Any, vf_preds: Any) -> Any:
        found = terms(action_dist_inputs, actions)
        return formula(
            found.log_probs, found.entropies, vf_preds, advantages, targets,
            value_coefficient=0.7 if use_critic else 0.0, entropy_coefficient=0.05,
        )  # fmt: skip

    config = A3CConfig().training(vf_loss_coeff=0.7, use_critic=use_critic, use_gae=use_critic)
    loss = actor_critic_loss(config, distribution, lambda: 0.05)
    metrics, gradient = loss_and_gradient(loss, module, vector, batch)
    outputs = ("action_dist_inputs", "vf_preds")
    expected, expected_gradient = twin_and_gradient(twin, outputs, module, vector, batch)
    assert metrics["total_loss"] == pytest.approx(expected, rel=error)
    assert ("vf_loss" in metrics) == use_critic
    np.testing.assert_allclose(gradient, expected_gradient, atol=error * np.abs(expected_gradient).max(), rtol=0)


def gradient_of_a_step(algorithm: A2C) -> tuple[dict[str, Any], Any]:
    """Train once; return what was reported, and the gradient before it was clipped."""
    applied, kept = algorithm.learner.apply, []

    def apply(name: str, gradient: Any, *more: Any) -> Any:
        kept.append(gradient.copy())
        return applied(name, gradient, *more)

    algorithm.learner.apply = apply  # type: ignore[method-assign]
    result = algorithm.train()
    assert len(kept) == algorithm.learner.version == 1
    return result["learners"]["default_policy"], kept[0]


@pytest.mark.parametrize(
    ("kind", "size"), [("steps", 16), ("steps", 24), ("steps", 64), ("memory", 24), ("schedules", 24), ("episodes", 24)]
)
def test_micro_batches_add_up_to_the_gradient_of_the_batch(kind: str, size: int) -> None:
    """Also where a micro-batch is no whole number of rounds, or of sequences."""
    at_once, in_parts = (made(kind, rollout_fragment_length=8, microbatch_size=part) for part in (None, size))
    metrics, expected = gradient_of_a_step(at_once)
    found_metrics, found = gradient_of_a_step(in_parts)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max(), rtol=0)
    assert found_metrics == pytest.approx(metrics, rel=1e-5, abs=1e-6)
    assert in_parts.env_steps_trained == at_once.env_steps_trained == at_once.env_steps_sampled


def test_a_micro_batch_is_sampled_by_all_environments_together() -> None:
    algorithm = made("micro-batches")
    algorithm.train()
    assert algorithm.config.get_rollout_fragment_length() == 4
    assert algorithm.env_steps_sampled == 64


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("kind", "runners"), [("steps", 1), ("steps", 2), ("memory", 2), ("micro-batches", 2)])
def test_any_number_of_runners_ends_with_the_same_bits(kind: str, runners: int) -> None:
    alone, many = made(kind), made(kind, num_env_runners=runners)
    assert weights_after(2, many) == weights_after(2, alone)
    many.stop()


@pytest.mark.parametrize("kind", list(KINDS))
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(kind: str, tmp_path: Path) -> None:
    straight = made(kind)
    weights_after(2, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = made(kind)
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    assert resumed.train()["info"]["learner"] == result["info"]["learner"]


def test_rates_follow_their_schedules() -> None:
    algorithm = made("schedules")
    found = [algorithm.train()["learners"]["default_policy"] for _ in range(4)]
    assert [part["entropy_coeff"] for part in found] == pytest.approx([0.1 * 136 / 200, 0.1 * 72 / 200, 0.004, 0])
    assert found[0]["a2c_learning_rate"] == pytest.approx(1e-2 - 9e-3 * 64 / 200)


def test_it_learns_which_action_is_right() -> None:
    algorithm = made(env=GuessTheAction, lr=2e-2)
    best = 0.0
    for _ in range(150):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"use_critic": False}, "use_gae=True needs the value function that use_critic=False leaves out"),
        ({"sample_async": True, "num_env_runners": 1}, "A2C does not act on sample_async, as A3C do"),
        ({"microbatch_size": 100}, "microbatch_size=100 is more than train_batch_size=64; make it smaller, or None"),
    ],
)
def test_settings_that_can_not_be_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**wrong)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    algorithm = made()
    before = algorithm.learner.weights.copy()
    gradient = np.full_like(before, np.nan)
    with pytest.raises(NumericError, match=r"the gradient of 'a2c' is not finite at step 0 of the learner"):
        algorithm.learner.apply("a2c", gradient)
    np.testing.assert_array_equal(algorithm.learner.weights, before)
    assert algorithm.learner.version == 0


def test_a_config_is_built_by_its_name() -> None:
    assert type(A2CConfig().environment("CartPole-v1").env_runners(num_env_runners=0).build()) is A2C
