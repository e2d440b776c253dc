"""Batches as files of Parquet, by pyarrow: one row a step, arrays as lists of fixed size."""

from __future__ import annotations

import importlib
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import DataError, MissingDependencyError
from kernel_rllib.offline.files import found_files, is_remote, local_path, open_to_read, open_to_write
from kernel_rllib.offline.input_reader import InputReader, OutputWriter
from kernel_rllib.offline.io_context import IOContext

ENDING = ".parquet"


def pyarrow_libraries() -> tuple[Any, Any]:
    """Return the modules `pyarrow` and `pyarrow.parquet`. Raises MissingDependencyError if they are not installed."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingDependencyError(
            'files of Parquet and Arrow need pyarrow: pip install "kernel-rllib[offline]"'
        ) from error


class ParquetReader(InputReader):
    """Reads all files in a random order, each row group a batch, then all of them again, without end."""

    def __init__(self, inputs: str | Sequence[str], ioctx: IOContext | None = None) -> None:
        """Look for files.

        Args:
            inputs: A folder, a glob, a file or an address, or a list of them.
            ioctx: The context, with the number of the runner and the seed of draws.

        Raises:
            DataError: If there are none.
            MissingDependencyError: If pyarrow is not installed.
        """
        _, self._parquet = pyarrow_libraries()
        self._inputs, self._random = inputs, random.Random(None if ioctx is None else ioctx.seed)
        self._waiting: list[str] = []
        self._path, self._group = "", 0
        self._file: Any = None
        self._files()

    def next(self) -> Batch:
        """Return the next row group as a batch. Raises DataError if no file has rows, or one is no file of Parquet."""
        for _ in range(2 * len(self._files()) + 2):
            if self._file is None:
                if not self._waiting:
                    self._waiting = self._files()
                    self._random.shuffle(self._waiting)
                self._open(self._waiting.pop(), 0)
            while self._group < self._file.num_row_groups:
                table = self._file.read_row_group(self._group)
                self._group += 1
                if table.num_rows:
                    return Batch({name: _of_column(table.column(name)) for name in table.column_names})
            self._file = None
        raise DataError(f"the files in {self._inputs!r} hold no step: wait until there is one")

    def state(self) -> dict[str, Any]:
        """Return where it is, and where draws are."""
        here = {"path": "" if self._file is None else self._path, "group": self._group, "waiting": list(self._waiting)}
        return {**here, "draws": json.dumps(self._random.getstate())}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, in the same files."""
        version, draws, gauss = json.loads(str(state["draws"]))
        self._random.setstate((version, tuple(draws), gauss))
        self._waiting, self._file = [str(path) for path in state["waiting"]], None
        if state["path"]:
            self._open(str(state["path"]), int(state["group"]))

    def _open(self, path: str, group: int) -> None:
        with open_to_read(path) as opened:
            content = opened.read()
        try:
            self._file = self._parquet.ParquetFile(io.BytesIO(content))
        except Exception as error:  # of pyarrow's own tree
            raise DataError(f"{path} is no file of Parquet: {error}") from error
        self._path, self._group = path, group

    def _files(self) -> list[str]:
        files = found_files(self._inputs, (ENDING,))
        if not files:
            raise DataError(f"there is no file that ends with {ENDING} in {self._inputs!r}")
        return files


class ParquetWriter(OutputWriter):
    """Writes each batch as a file of its own, which is whole when `write` returns."""

    def __init__(
        self, path: str, ioctx: IOContext | None = None, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        """Write into a folder, or to its address.

        Args:
            path: The folder.
            ioctx: The context, with the number of the runner.
            clock: Tells the time, for the names of files; None: they have none, only numbers.

        Raises:
            MissingDependencyError: If pyarrow is not installed.
        """
        self._arrow, self._parquet = pyarrow_libraries()
        self._path = path.rstrip("/") if is_remote(path) else local_path(path)
        self._worker, self._clock, self._index = 0 if ioctx is None else ioctx.worker_index, clock, 0

    def write(self, sample_batch: Batch | MultiAgentBatch) -> None:
        """Write a batch of one policy. Raises DataError for several, or a column of objects."""
        if isinstance(sample_batch, MultiAgentBatch):
            raise DataError(
                "files of Parquet have steps of one policy, and this batch is of "
                f"{', '.join(sample_batch.policy_batches)}: write JSON, which is the default"
            )
        table = self._arrow.table({name: self._column(name, column) for name, column in sample_batch.items()})
        when = "" if self._clock is None else f"{self._clock():%Y-%m-%d_%H-%M-%S}_"
        name = f"output-{when}worker-{self._worker}_{self._index}{ENDING}"
        with open_to_write(f"{self._path}/{name}") as file:
            self._parquet.write_table(table, file)
        self._index += 1

    def _column(self, name: str, column: Array) -> Any:
        if column.dtype.hasobject:
            raise DataError(f"the column {name!r} holds objects, for which Parquet has no form here: leave it out")
        found = self._arrow.array(np.ascontiguousarray(column).reshape(-1))
        for size in reversed(column.shape[1:]):
            found = self._arrow.FixedSizeListArray.from_arrays(found, size)
        return found


def _of_column(column: Any) -> Array:
    """Return a column as an array [rows, ...]."""
    array, shape = column.combine_chunks(), [len(column)]
    if hasattr(array, "num_chunks"):
        array = array.chunk(0)
    while hasattr(array.type, "list_size") and array.type.list_size > 0:
        shape.append(array.type.list_size)
        array = array.flatten()
    if hasattr(array.type, "value_type"):  # lists whose sizes differ, or might
        return np.asarray(array.to_pylist())
    found: Array = array.to_numpy(zero_copy_only=False).reshape(shape)
    return np.array(found)
