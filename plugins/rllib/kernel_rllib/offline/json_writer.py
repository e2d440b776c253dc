"""Writes batches as JSON lines, in files that end when they are large enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import IO

from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.offline.files import is_remote, local_path, open_to_write
from kernel_rllib.offline.input_reader import OutputWriter
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.json_lines import to_line

COMPRESSED = ("obs", "new_obs")
MOST_BYTES = 64 * 1024 * 1024


class JsonWriter(OutputWriter):
    """Writes files that JsonReader reads, here and in RLlib.

    They are called `output-2019-01-01_15-58-57_worker-0_0.json`: the time, the number of the runner, that of the file.
    Each batch is in its file when `write` returns.
    """

    def __init__(
        self,
        path: str,
        ioctx: IOContext | None = None,
        max_file_size: int | None = MOST_BYTES,
        compress_columns: Collection[str] = COMPRESSED,
        *,
        clock: Callable[[], datetime] = datetime.now,
    ) -> None:
        """Write into a folder, which is made when the first batch comes.

        Args:
            path: The folder, or its address.
            ioctx: The context, with the number of the runner.
            max_file_size: The number of bytes after which the next batch goes into another file; None: any.
            compress_columns: The names of the columns that are packed: they are smaller then, and quicker to read.
            clock: Tells the time, for the names of files.
        """
        self._path = path.rstrip("/") if is_remote(path) else local_path(path)
        self._worker = 0 if ioctx is None else ioctx.worker_index
        self._most, self._packed, self._clock = max_file_size, frozenset(compress_columns), clock
        self._file: IO[bytes] | None = None
        self._written = self._index = 0

    def write(self, sample_batch: Batch | MultiAgentBatch) -> None:
        """Write a batch. Raises DataError if a column has no form in JSON, or the file can't be written."""
        line = f"{to_line(sample_batch, self._packed)}\n".encode()
        if self._file is not None and self._most is not None and self._written >= self._most:
            self.close()
        if self._file is None:
            name = f"output-{self._clock():%Y-%m-%d_%H-%M-%S}_worker-{self._worker}_{self._index}.json"
            self._file = open_to_write(f"{self._path}/{name}")
            self._index, self._written = self._index + 1, 0
        self._file.write(line)
        self._file.flush()
        self._written += len(line)

    def close(self) -> None:
        """End the file that is written. A batch that comes later begins another one."""
        if self._file is not None:
            self._file.close()
            self._file = None
