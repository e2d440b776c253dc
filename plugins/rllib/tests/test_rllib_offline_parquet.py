"""Files of Parquet: what is written is read, in runs as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import DataError
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.parquet_files import ParquetReader, ParquetWriter, pyarrow_libraries
from kernel_rllib.training.registry import algorithm_class

arrow = pytest.importorskip("pyarrow")

STEPS = Batch(
    obs=np.arange(24, dtype=np.float32).reshape(4, 3, 2), actions=np.array([0, 1, 1, 0]),
    flat=np.ones((4, 1), np.uint8), rewards=np.ones(4, np.float32), dones=np.array([False, False, False, True]),
)  # fmt: skip


def test_what_is_written_is_read(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path / "out"), IOContext(worker_index=2))
    writer.write(STEPS)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["output-worker-2_0.parquet"]
    found = ParquetReader(str(tmp_path / "out")).next()
    assert sorted(found) == sorted(STEPS)
    for name, column in STEPS.items():
        np.testing.assert_array_equal(found[name], column)
        assert found[name].dtype == column.dtype and found[name].flags.writeable


def test_files_are_read_again_and_a_reader_goes_on_where_another_was(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path))
    for number in range(4):
        writer.write(Batch(rewards=np.array([number])))
    reader = ParquetReader(str(tmp_path), IOContext(seed=1))
    found = [int(reader.next()["rewards"][0]) for _ in range(6)]
    assert sorted(found[:4]) == [0, 1, 2, 3]
    other = ParquetReader([str(tmp_path / "*.parquet")])
    other.set_state(reader.state())
    assert [other.next()["rewards"][0] for _ in range(9)] == [reader.next()["rewards"][0] for _ in range(9)]


def test_lists_of_any_size_are_read_too(tmp_path: Path) -> None:
    pyarrow_libraries()[1].write_table(arrow.table({"obs": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "a.parquet")
    assert ParquetReader(str(tmp_path)).next()["obs"].tolist() == [[1, 2], [3, 4]]


def test_what_can_not_be_written_or_read_is_refused(tmp_path: Path) -> None:
    writer = ParquetWriter(str(tmp_path))
    with pytest.raises(DataError, match="files of Parquet have steps of one policy, and this batch is of a, b: write"):
        writer.write(MultiAgentBatch({"a": STEPS, "b": STEPS}, 4))
    with pytest.raises(DataError, match="the column 'infos' holds objects, for which Parquet has no form here"):
        writer.write(Batch(infos=np.array([{}], object)))
    with pytest.raises(DataError, match=r"there is no file that ends with .parquet in"):
        ParquetReader(str(tmp_path))
    (tmp_path / "a.parquet").write_text("nothing")
    with pytest.raises(DataError, match="a.parquet is no file of Parquet"):
        ParquetReader(str(tmp_path)).next()
    writer.write(STEPS.slice(0, 0))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match="hold no step: wait until there is one"):
        ParquetReader(str(tmp_path)).next()


def test_runs_write_and_read_them(tmp_path: Path) -> None:
    few: dict[str, Any] = {
        "env": "CartPole-v1", "num_env_runners": 0, "seed": 1, "model": {"fcnet_hiddens": [4]}, "train_batch_size": 60,
    }  # fmt: skip
    writing = algorithm_class("PG")({**few, "output": str(tmp_path), "output_config": {"format": "parquet"}})
    writing.train()
    writing.stop()
    for source in (str(tmp_path), [str(tmp_path / "*.parquet")]):
        reading = algorithm_class("BC")({**few, "input_": source})
        assert reading.train()["timesteps_total"] >= 60
        reading.stop()
    with pytest.raises(DataError, match="output_config has the format 'csv': take 'json' or 'parquet'"):
        algorithm_class("PG")({**few, "output": str(tmp_path), "output_config": {"format": "csv"}})
