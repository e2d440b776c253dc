"""Datasets that the real Minari has made: what is read is what was played."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.sources import ReaderMaker
from kernel_rllib.training.registry import algorithm_class

minari = pytest.importorskip("minari")


def recorded(name: str, form: str, env: str) -> list[Any]:
    """Record three episodes of random actions, and return them as Minari reads them."""
    collector = minari.DataCollector(gymnasium.make(env), data_format=form)
    for seed in range(3):
        collector.reset(seed=seed)
        collector.action_space.seed(seed)
        ended = False
        while not ended:
            _, _, terminated, truncated, _ = collector.step(collector.action_space.sample())
            ended = terminated or truncated
    made = collector.create_dataset(name, algorithm_name="random", author="us", author_email="a@b", code_permalink="c")
    collector.close()
    return list(made.iterate_episodes())


@pytest.mark.parametrize("form", ["hdf5", "arrow", "parquet"])
@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1", "Taxi-v4"])
def test_what_minari_writes_is_read(env: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    name = f"{env.partition('-')[0].lower()}/{form}-v0"
    episodes = recorded(name, form, env)
    reader = ReaderMaker(f"minari://{name}")(IOContext(seed=1))
    found = sorted((reader.next() for _ in range(3)), key=lambda batch: int(batch["eps_id"][0]))
    for batch, expected in zip(found, episodes, strict=True):
        obs = np.asarray(expected.observations)
        rows = np.eye(500, dtype=np.float32)[obs] if obs.ndim == 1 else obs
        np.testing.assert_array_equal(batch["obs"], rows[:-1])
        np.testing.assert_array_equal(batch["new_obs"], rows[1:])
        np.testing.assert_array_equal(batch["actions"], expected.actions)
        np.testing.assert_allclose(batch["rewards"], expected.rewards, rtol=1e-6)
        np.testing.assert_array_equal(batch["terminateds"], expected.terminations)
        np.testing.assert_array_equal(batch["truncateds"], expected.truncations & ~expected.terminations)
    algorithm = algorithm_class("BC")({
        "env": env, "input_": os.path.join(tmp_path, name), "num_env_runners": 0, "train_batch_size": 32,
        "model": {"fcnet_hiddens": [8]}, "seed": 1,
    })  # fmt: skip
    assert algorithm.train()["timesteps_total"] >= 32
    algorithm.stop()
