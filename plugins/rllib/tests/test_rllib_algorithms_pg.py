"""PG: its loss is REINFORCE, it learns, gives the same bits anywhere, and goes on after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.pg import PG, PGConfig, policy_gradient_loss
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.testing.losses import loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference.policy_gradient import policy_gradient_loss as formula
from kernel_rllib.testing.reference.rows import categorical_terms, gaussian_terms
from kernel_rllib.testing.training import weights_after

LSTM = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 10}
KINDS: dict[str, dict[str, Any]] = {
    "episodes": {},
    "fragments": {"batch_mode": "truncate_episodes", "rollout_fragment_length": 16},
    "memory": {"model": LSTM},
}


def made(kind: str = "episodes", **settings: Any) -> PG:
    """Return a small algorithm with four lanes in all."""
    small = {
        "env": "CartPole-v1",
        "seed": 3,
        "num_envs": 4,
        "num_cpus_per_env_runner": 0,
        "train_batch_size": 128,
        "lr": 1e-2,
        "model": {"fcnet_hiddens": [16]},
    }
    return PG({**small, **KINDS[kind], **settings})


@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-9), (np.float32, 1e-5)])
@pytest.mark.parametrize("kind", ["softmax", "gaussian"])
def test_loss_and_gradient_are_those_of_the_formula(kind: str, dtype: Any, error: float) -> None:
    draw = np.random.default_rng(1)
    space: Any = spaces.Discrete(4) if kind == "softmax" else spaces.Box(-1, 1, (2,))
    distribution = for_space(space)
    actions = draw.integers(4, size=40) if kind == "softmax" else draw.normal(size=(40, 2)).astype(dtype)
    terms = categorical_terms if kind == "softmax" else gaussian_terms
    batch = Batch(
        obs=draw.normal(size=(40, 3)).astype(dtype),
        actions=actions,
        advantages=draw.normal(3, 2, size=40).astype(dtype),
    )
    returns = batch["advantages"].astype(np.float64)
    module = ActorCritic(3, distribution.parameter_size, options=ActorCriticOptions(hidden=(5,)))
    vector = draw.normal(0, 0.3, module.table.size).astype(dtype)
    metrics, gradient = loss_and_gradient(policy_gradient_loss(distribution), module, vector, batch)
    expected, expected_gradient = twin_and_gradient(
        lambda action_dist_inputs: formula(terms(action_dist_inputs, actions).log_probs, returns),
        ("action_dist_inputs",), module, vector, batch,
    )  # fmt: skip
    assert metrics["policy_loss"] == pytest.approx(expected, rel=error)
    np.testing.assert_allclose(gradient, expected_gradient, atol=error * np.abs(expected_gradient).max(), rtol=0)


def test_steps_are_weighed_by_the_discounted_rewards_to_the_end_of_their_episode() -> None:
    algorithm = made(gamma=0.5, train_batch_size=8)
    fragment = algorithm.sample()
    batch = algorithm.experience([fragment])
    ends = fragment.columns["terminateds"] | fragment.columns["truncateds"]
    for lane in range(4):
        made_here = fragment.valid[:, lane] if fragment.valid is not None else np.ones(len(ends), bool)
        left = 0.0
        for step in reversed(np.flatnonzero(made_here).tolist()):
            left = 1.0 + 0.5 * (0.0 if ends[step, lane] else left)  # each step of the pole is worth 1
            assert fragment.columns["advantages"][step, lane] == pytest.approx(left)
        assert ends[np.flatnonzero(made_here)[-1], lane], "whole episodes only"
    assert batch.count == fragment.steps


def test_only_the_policy_is_learned() -> None:
    algorithm = made()
    table, vector = algorithm.learner.module.table, algorithm.learner.vector
    before = table.views(vector.copy())
    algorithm.train()
    after = table.views(vector)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name in before if not name.startswith("value")}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("kind", "runners"), [("episodes", 1), ("episodes", 2), ("fragments", 2), ("memory", 2)])
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


def test_it_learns_which_action_is_right() -> None:
    algorithm = made(env=GuessTheAction, train_batch_size=256, lr=3e-2)
    best = 0.0
    for _ in range(60):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.95:
            break
    assert best > 0.95, "chance has 0.25"


def test_whole_episodes_are_sampled_unless_an_older_generation_is_asked_for() -> None:
    assert PGConfig().batch_mode == "complete_episodes"
    assert PGConfig(generation="0.8.5").batch_mode == PGConfig(generation="2.x").batch_mode == "truncate_episodes"
