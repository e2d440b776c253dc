"""Filters of several policies: each learns of what its own agents observe, the same in any runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.connectors.policy_statistics import of_policy
from kernel_rllib.testing.multi_agent import TakingTurns


class Far(TakingTurns):
    """Agents that observe numbers around 100."""

    observation_space = spaces.Box(90.0, 110.0, (3,), np.float32)

    def _seen(self) -> np.ndarray:
        return super()._seen() * 3 + 100


def small(**env_runners: Any) -> Any:
    """Return small settings of two agents that act by turns, with a filter each."""
    return (
        PPOConfig()
        .environment(Far)
        .env_runners(**{
            "num_envs": 4, "num_env_runners": 0, "num_cpus_per_env_runner": 0, "observation_filter": "MeanStdFilter",
            **env_runners,
        })
        .training(train_batch_size=64, minibatch_size=32, num_epochs=1, lr=1e-2, model={"fcnet_hiddens": [8]})
        .multi_agent(policies=["p0", "p1"], policy_mapping_fn=lambda agent, *_, **__: f"p{agent}")
        .debugging(seed=3)
    )  # fmt: skip


def state_of(algorithm: Any) -> dict[str, bytes]:
    """Return all parameters, and what filters have learned."""
    found = {name: learner.weights.tobytes() for name, learner in algorithm.learners.items()}
    return found | {name: each.mean.tobytes() for name, each in sorted(algorithm.runners.statistics.items())}


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("batch_mode", ["truncate_episodes", "complete_episodes"])
def test_each_policy_has_a_filter_with_the_same_bits_in_any_runner(batch_mode: str) -> None:
    alone, two = small(batch_mode=batch_mode).build(), small(batch_mode=batch_mode, num_env_runners=2).build()
    for algorithm in (alone, two):
        for _ in range(3):
            algorithm.train()
    assert state_of(alone) == state_of(two)
    statistics = alone.runners.statistics
    steps = alone.progress.module_steps
    for policy_id in ("p0", "p1"):
        (learned,) = of_policy(statistics, policy_id).values()
        assert abs(float(learned.mean.mean()) - 100) < 1
        assert abs(float(learned.count) - steps[policy_id]) <= 8  # steps that are not over count as observed
    seen = alone.sample_all()["p0"].columns["obs"]
    assert abs(seen.mean()) < 0.5 and 0.7 < seen[seen != 0].std() < 1.3
    two.stop()


def test_single_actions_evaluations_and_checkpoints_have_the_statistics(tmp_path: Path) -> None:
    straight = small().evaluation(evaluation_duration=2).build()
    straight.train()
    filtered = straight.inference_of("p1").rows([np.full(3, 100.0, np.float32)])
    assert abs(filtered).max() < 1
    before = state_of(straight)
    straight.evaluate()
    straight.compute_single_action(np.full(3, 100.0, np.float32), policy_id="p1")
    assert state_of(straight) == before
    path = straight.save(str(tmp_path / "checkpoint"))
    resumed = small().build()
    resumed.restore(path)
    straight.train(), resumed.train()
    assert state_of(resumed) == state_of(straight)


def test_statistics_come_and_go_with_policies() -> None:
    algorithm = small().build()
    algorithm.train()
    algorithm.add_policy("copy", policy=algorithm.get_policy("p1"))
    (copied,), (own,) = (of_policy(algorithm.runners.statistics, name).values() for name in ("copy", "p1"))
    np.testing.assert_array_equal(copied.mean, own.mean)
    seen = [np.full(3, 101.0, np.float32)]
    np.testing.assert_array_equal(algorithm.inference_of("copy").rows(seen), algorithm.inference_of("p1").rows(seen))
    algorithm.remove_policy("p1", policy_mapping_fn=lambda *_, **__: "copy")
    assert set(algorithm.runners.statistics) == {"p0.0_MeanStdFilter", "copy.0_MeanStdFilter"}
    algorithm.train()


def test_functions_of_rows_may_be_connectors() -> None:
    algorithm = small(observation_filter="NoFilter", env_to_module_connector=lambda *_: lambda rows: rows - 100).build()
    assert abs(algorithm.sample_all()["p0"].columns["obs"]).max() <= 3
