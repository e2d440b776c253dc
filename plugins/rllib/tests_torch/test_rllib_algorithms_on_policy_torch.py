"""PG, A2C, A3C and DD-PPO learn with torch what they learn with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernel

pytest.importorskip("torch")

from kernel_rllib.training.registry import algorithm_class

SMALL = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 4,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "min_time_s_per_iteration": 0,
    "train_batch_size": 64,
    "model": {"fcnet_hiddens": [16]},
}
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("PG", {}),
    ("A2C", {}),
    ("A2C", {"microbatch_size": 24}),
    ("A2C", {"model": {"fcnet_hiddens": [16], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 8}}),
    (
        "A2C",
        {
            "model": {
                "fcnet_hiddens": [16],
                "use_attention": True,
                "attention_dim": 8,
                "attention_num_heads": 2,
                "attention_memory_inference": 4,
                "attention_memory_training": 6,
                "max_seq_len": 8,
            }
        },
    ),
    ("A3C", {"sample_async": False, "rollout_fragment_length": 8, "train_batch_size": 32}),
    ("DDPPO", {"num_env_runners": 2, "minibatch_size": 32, "num_epochs": 2}),
]


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """One session for all tests, for workers."""
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.mark.parametrize(("name", "settings"), KINDS)
def test_a_step_with_torch_is_that_with_numpy(name: str, settings: dict[str, Any]) -> None:
    made = [algorithm_class(name)({**SMALL, **settings, "framework": kind}) for kind in ("numpy", "torch")]
    first, second = (algorithm.train()["learners"]["default_policy"] for algorithm in made)
    assert [algorithm.learner.backend.name for algorithm in made] == ["numpy", "torch"]
    assert second == pytest.approx(first, rel=1e-3, abs=1e-4)
    np.testing.assert_allclose(made[1].learner.weights, made[0].learner.weights, atol=1e-4)
    for algorithm in made:
        algorithm.stop()
