"""PPO's loss and its gradient: those of the formulas written out, for rows and for sequences with a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.on_policy import experience
from kernel_rllib.algorithms.ppo import READ, PPOConfig, adapted, ppo_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.testing.counting import counting_blueprint, counting_sampler
from kernel_rllib.testing.losses import in_float64, loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference.ppo import gaussian_ppo_loss, next_kl_coefficient, softmax_ppo_loss

ROWS = 40
KL, ENTROPY = 0.3, 0.02
OUTPUTS = ("action_dist_inputs", "vf_preds")
TYPES = [(np.float64, 1e-9), (np.float32, 1e-5)]


def settings(**more: Any) -> PPOConfig:
    """Return settings under which each term and each clip of the loss has a part."""
    return PPOConfig().training(clip_param=0.1, vf_clip_param=0.5, vf_loss_coeff=0.7, **more)


def rows(actions: Any, width: int, dtype: Any) -> Batch:
    """Return rows with made-up numbers."""
    draw = np.random.default_rng(0)
    return Batch(
        obs=draw.normal(size=(ROWS, 3)).astype(dtype),
        actions=actions,
        action_dist_inputs=draw.normal(0, 0.1, (ROWS, width)).astype(dtype),
        advantages=draw.normal(size=ROWS).astype(dtype),
        value_targets=draw.normal(size=ROWS).astype(dtype),
    )


@pytest.mark.parametrize(("dtype", "error"), TYPES)
@pytest.mark.parametrize("kind", ["softmax", "gaussian"])
@pytest.mark.parametrize("use_critic", [True, False])
def test_loss_and_gradient_are_those_of_the_formulas(kind: str, use_critic: bool, dtype: Any, error: float) -> None:
    draw = np.random.default_rng(1)
    space: Any = spaces.Discrete(4) if kind == "softmax" else spaces.Box(-1, 1, (2,))
    distribution = for_space(space)
    actions = draw.integers(4, size=ROWS) if kind == "softmax" else draw.normal(size=(ROWS, 2)).astype(dtype)
    batch = rows(actions, distribution.parameter_size, dtype)
    module = ActorCritic(3, distribution.parameter_size, options=ActorCriticOptions(hidden=(5,)))
    vector = draw.normal(0, 0.3, module.table.size).astype(dtype)
    formula = softmax_ppo_loss if kind == "softmax" else gaussian_ppo_loss
    options = {"value_coefficient": 0.7 if use_critic else 0.0, "kl_coefficient": KL, "entropy_coefficient": ENTROPY}

    def twin(action_dist_inputs: Any, vf_preds: Any) -> Any:
        return formula(
            action_dist_inputs, vf_preds, actions, wide["action_dist_inputs"], wide["value_targets"],
            wide["advantages"], wide["value_targets"], clip=0.1, value_clip=0.5, **options,
        )  # fmt: skip

    batch["action_logp"] = distribution.log_prob(NumpyOps(dtype), batch["action_dist_inputs"], actions)
    wide = in_float64(batch)
    loss = ppo_loss(settings(use_critic=use_critic, use_gae=use_critic), distribution, lambda: KL, lambda: ENTROPY)
    metrics, gradient = loss_and_gradient(loss, module, vector, batch)
    expected, expected_gradient = twin_and_gradient(twin, OUTPUTS, module, vector, batch)
    assert metrics["total_loss"] == pytest.approx(expected, rel=error)
    np.testing.assert_allclose(gradient, expected_gradient, atol=error * np.abs(expected_gradient).max(), rtol=0)
    assert metrics["kl"] > 0.01 and ("vf_loss" in metrics) == use_critic


@pytest.mark.parametrize("length", [3, 4, 9])
def test_the_loss_of_sequences_is_that_of_all_steps_that_were_made(length: int) -> None:
    """With the parameters that sampled, a memory that is cut anywhere gives what it gave while sampling."""
    blueprint = counting_blueprint(lstm=6)
    module, distribution = blueprint.module, for_space(blueprint.action_space)
    vector = np.random.default_rng(1).normal(0, 0.5, module.table.size).astype(np.float32)
    acting = counting_sampler(blueprint)
    acting.set_weights(vector, 1)
    fragment = acting.sample(9)
    draw = np.random.default_rng(2)
    fragment.columns["advantages"] = draw.normal(size=(9, 4)).astype(np.float32)
    fragment.columns["value_targets"] = np.zeros((9, 4), np.float32)
    batch = experience(module, [fragment], READ, length).whole()  # type: ignore[union-attr]
    loss = ppo_loss(settings(use_critic=False, use_gae=False), distribution, lambda: 1.0, lambda: 0.0)
    metrics, gradient = loss_and_gradient(loss, module, vector.astype(np.float64), batch)
    assert batch.count == 36
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["policy_loss"] == pytest.approx(-fragment.columns["advantages"].mean(), abs=1e-6)
    assert np.abs(gradient).max() > 1e-3


def test_the_weight_of_the_penalty_follows_the_rule() -> None:
    coefficient, target = 0.2, PPOConfig().kl_target
    for kl in (0.05, 0.019, 0.001, 0.021):
        expected = next_kl_coefficient(coefficient, kl, target)
        coefficient = adapted(coefficient, {"kl": kl}, target)
        assert coefficient == expected
