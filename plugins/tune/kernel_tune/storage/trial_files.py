"""The files that a trial writes into its directory, for copies between machines: listed, read and written in pieces.

Checkpoints, which are copied separately, and files that the driver writes there are not included.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_tune.errors import TuneError

BATCH_BYTES = 16 << 20
"""The number of bytes that are copied at once. Larger files are copied in pieces."""
_CHECKPOINT = re.compile(r"checkpoint_\d{6,}")
"""The names of checkpoints (`checkpoint.directory_name`). Other names belong to the user's files."""
_OF_THE_PROGRAM = {"result.json", "progress.csv", "params.json", "params.pkl", "error.txt", "error.pkl"}
_EVENTS = "events.out.tfevents"
_INCOMING = ".incoming_"

Stamp = tuple[int, int]
"""Size in bytes, and time of the last change in nanoseconds. Files with equal stamps count as equal."""


@dataclass
class Piece:
    """Describes a part of a file: `length` bytes from `offset` on, of the file in the state of `stamp`."""

    path: str
    """The path in the trial's directory."""
    offset: int
    length: int
    stamp: Stamp

    @property
    def is_last(self) -> bool:
        """Whether the piece completes the file."""
        return self.offset + self.length >= self.stamp[0]


def list_files(directory: str) -> dict[str, Stamp]:
    """Return the files of a trial's directory that are copied, by their path in it; {} if it does not exist."""
    found = {}
    for folder, folders, names in os.walk(directory):
        is_top = folder == directory
        folders[:] = [
            name for name in folders if not name.startswith(".") and not (is_top and _CHECKPOINT.fullmatch(name))
        ]
        for name in names:
            if name.startswith(".") or (is_top and name in _OF_THE_PROGRAM):
                continue
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # deleted meanwhile
                state = os.stat(path)
                if stat.S_ISREG(state.st_mode):
                    found[os.path.relpath(path, directory)] = (state.st_size, state.st_mtime_ns)
    return found


def files_to_bring(directory: str) -> dict[str, Stamp]:
    """Return the files that a trial needs on the machine where it continues: all except event files."""
    return {
        path: stamp for path, stamp in list_files(directory).items() if not os.path.basename(path).startswith(_EVENTS)
    }


def changed(files: Mapping[str, Stamp], known: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """Return the files whose stamps differ from known ones."""
    return {path: stamp for path, stamp in files.items() if known.get(path) != stamp}


def in_batches(files: Mapping[str, Stamp], limit: int = BATCH_BYTES) -> Iterator[list[Piece]]:
    """Yield the pieces of files in batches of at most `limit` bytes, those of a file in their order."""
    batch: list[Piece] = []
    room = limit
    for path, stamp in files.items():
        offset = 0
        while True:
            if room == 0 and batch:
                yield batch
                batch, room = [], limit
            length = min(stamp[0] - offset, room)
            batch.append(Piece(path, offset, length, stamp))
            offset, room = offset + length, room - length
            if offset >= stamp[0]:
                break
    if batch:
        yield batch


def read_pieces(directory: str, pieces: Sequence[Piece]) -> list[bytes | None]:
    """Return the contents of pieces: shorter if a file was truncated, None if it does not exist any more."""
    return [_read(os.path.join(directory, piece.path), piece) for piece in pieces]


def _read(path: str, piece: Piece) -> bytes | None:
    try:
        with open(path, "rb") as file:
            file.seek(piece.offset)
            return file.read(piece.length)
    except OSError:
        return None


def write_pieces(directory: str, pieces: Iterable[Piece], contents: Iterable[bytes | None]) -> None:
    """Write pieces of files. A file gets its name, and the time of its change, with its last piece.

    Raises TuneError for a path outside the directory.
    """
    for piece, data in zip(pieces, contents, strict=True):
        path = os.path.normpath(os.path.join(directory, piece.path))
        if not path.startswith(os.path.join(directory, "")):
            raise TuneError(f"a file of a trial is said to be at {piece.path!r}, which is not in its directory")
        folder, name = os.path.split(path)
        unfinished = os.path.join(folder, f"{_INCOMING}{name}")
        if data is not None:
            os.makedirs(folder, exist_ok=True)
            with open(unfinished, "wb" if piece.offset == 0 else "ab") as file:
                file.write(data)
        if piece.is_last and os.path.exists(unfinished):
            os.utime(unfinished, ns=(piece.stamp[1], piece.stamp[1]))
            os.replace(unfinished, path)
