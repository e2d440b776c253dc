"""The example that records a dataset: what it writes is what was played, and is an input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch
from kernel_rllib.examples.record_dataset import main, write_d4rl
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.sources import ReaderMaker

h5py = pytest.importorskip("h5py")


def test_it_records_episodes_of_a_training(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "mixed.hdf5")
    count = main([path, "--experiment", "pg-cartpole-v0", "--steps", "200", "--goes-on", "--seed", "2"])
    with h5py.File(path) as file:
        obs, following = file["observations"][...], file["next_observations"][...]
        ends = file["terminals"][...] | file["timeouts"][...]
    assert len(obs) == count >= 200 and ends[-1]
    np.testing.assert_array_equal(obs[1:][~ends[:-1]], following[:-1][~ends[:-1]])
    assert f"{count} steps of {ends.sum()} episodes, whose mean return is" in capsys.readouterr().out
    reader = ReaderMaker(path)(IOContext(seed=1))
    assert sum(reader.next()["rewards"].sum() for _ in range(int(ends.sum()))) == count


def test_a_controller_needs_no_training(tmp_path: Path) -> None:
    path = str(tmp_path / "swings.hdf5")
    assert main([path, "--scripted", "--steps", "401"]) == 600
    reader = ReaderMaker(path)(IOContext(seed=1))
    assert max(float(reader.next()["rewards"].sum()) for _ in range(3)) > -450


def test_an_episode_that_was_not_recorded_to_its_end_is_cut_off(tmp_path: Path) -> None:
    rows = {name: np.ones((4, 1), np.float32) for name in ("obs", "new_obs", "actions")}
    flags = {"terminateds": [False, True, False, False], "truncateds": [False] * 4}
    write_d4rl(str(tmp_path / "a.hdf5"), Batch(**rows, rewards=np.ones(4), eps_id=np.array([1, 1, 2, 3]), **flags))
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert file["timeouts"][...].tolist() == [False, False, True, True]
        assert file["terminals"][...].tolist() == flags["terminateds"]
