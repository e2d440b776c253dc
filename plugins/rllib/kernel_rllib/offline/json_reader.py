"""Reads batches from files of JSON lines, again and again, also while others write them."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping, Sequence
from typing import IO, Any

from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.errors import DataError
from kernel_rllib.offline.files import found_files, open_to_read
from kernel_rllib.offline.input_reader import InputReader
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.json_lines import of_line

_log = logging.getLogger("kernel.rllib")

ENDINGS = (".json", ".jsonl")
MOST_DAMAGED = 100
"""So many damaged lines in a row are left out, with a warning; one more is an error."""


class JsonReader(InputReader):
    """Reads all files in a random order, each from its first line to its last, then all of them again, without end.

    Files are looked for anew in each round, so those that appeared meanwhile, and what was added to others, are read
    too. A last line that is not whole is one that is being written: it is left for the next time.
    """

    def __init__(self, inputs: str | Sequence[str], ioctx: IOContext | None = None) -> None:
        """Look for files.

        Args:
            inputs: A folder, a glob, a file or an address, or a list of them.
            ioctx: The context, with the number of the runner and the seed of draws.

        Raises:
            DataError: If there are none.
        """
        self._inputs = inputs if isinstance(inputs, str) else [str(each) for each in inputs]
        context = ioctx or IOContext()
        self._random = random.Random(context.seed)
        self._waiting: list[str] = []
        self._path: str | None = None
        self._file: IO[bytes] | None = None
        self._files()

    def next(self) -> Batch | MultiAgentBatch:
        """Return the batch of the next line.

        Raises:
            DataError: If there are no files any more, no file holds a batch, or too many lines in a row are damaged.
        """
        damaged = 0
        while True:
            line = self._next_line()
            if not line.strip():
                continue
            try:
                batch = of_line(line)
            except DataError as error:
                damaged += 1
                if damaged > MOST_DAMAGED:
                    raise DataError(
                        f"{damaged} lines in a row hold no batch; the last one is in {self._path}: {error}. Files are "
                        "of one JSON object a line, as JsonWriter writes them"
                    ) from error
                _log.warning("A line of %s is left out: %s", self._path, error)
                continue
            if batch.count:
                return batch

    def state(self) -> dict[str, Any]:
        """Return where it is, and where draws are."""
        offset = 0 if self._file is None else self._file.tell()
        return {
            "path": self._path if self._file is not None else "",
            "offset": offset,
            "waiting": list(self._waiting),
            "draws": json.dumps(self._random.getstate()),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, in the same files."""
        version, draws, gauss = json.loads(str(state["draws"]))
        self._random.setstate((version, tuple(draws), gauss))
        self._waiting = [str(path) for path in state["waiting"]]
        self.close()
        if state["path"]:
            self._path, self._file = str(state["path"]), open_to_read(str(state["path"]))
            self._file.seek(int(state["offset"]))

    def close(self) -> None:
        """Let go of the file that is read."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _files(self) -> list[str]:
        files = found_files(self._inputs, ENDINGS)
        if not files:
            raise DataError(
                f"there is no file of recorded experience in {self._inputs!r}: name a folder with files that end with "
                f"{' or '.join(ENDINGS)}, a glob, or files"
            )
        return files

    def _next_line(self) -> bytes:
        """Return the next whole line, of another file where this one has ended."""
        rounds = 0
        while True:
            if self._file is None:
                rounds += not self._waiting
                if rounds > 2:
                    raise DataError(f"the files in {self._inputs!r} hold no batch: wait until there is one")
                self._open_another()
            assert self._file is not None
            line = self._file.readline()
            if line.endswith(b"\n") or (line and self._is_whole(line)):
                return line
            self.close()

    def _open_another(self) -> None:
        """Open the next file of this round; when all had their turn, look for files, and put them into any order."""
        if not self._waiting:
            self._waiting = self._files()
            self._random.shuffle(self._waiting)
        self._path = self._waiting.pop()
        self._file = open_to_read(self._path)

    def _is_whole(self, line: bytes) -> bool:
        """Return whether a line at the end of a file is whole although nothing ends it."""
        try:
            of_line(line)
        except DataError:
            return False
        return True
