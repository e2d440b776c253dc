"""The files that a trial writes into its directory, on their way between machines: listed, read and written in pieces.

Checkpoints are not among them, which travel by themselves, nor what the program writes there about the trial.
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
"""How much is on its way at once. Larger files travel in pieces."""
_CHECKPOINT = re.compile(r"checkpoint_\d{6,}")
"""What `checkpoint.directory_name` calls them: what users call their own files is theirs."""
_OF_THE_PROGRAM = {"result.json", "progress.csv", "params.json", "params.pkl", "error.txt", "error.pkl"}
_EVENTS = "events.out.tfevents"
_INCOMING = ".incoming_"

Stamp = tuple[int, int]
"""Size in bytes, and when it was changed, in nanoseconds. Files of which both are equal are taken for equal."""


@dataclass
class Piece:
    """A part of a file: `length` bytes from `offset` on, of the file as `stamp` says it was."""

    path: str
    """In the trial's directory."""
    offset: int
    length: int
    stamp: Stamp

    @property
    def is_last(self) -> bool:
        """Whether the file is whole with it."""
        return self.offset + self.length >= self.stamp[0]


def list_files(directory: str) -> dict[str, Stamp]:
    """Return the files of a trial's directory that travel, by their path in it; nothing if there is none."""
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
    """Return the files of a trial's directory that it needs where it goes on: not its event files."""
    return {
        path: stamp for path, stamp in list_files(directory).items() if not os.path.basename(path).startswith(_EVENTS)
    }


def changed(files: Mapping[str, Stamp], known: Mapping[str, Stamp]) -> dict[str, Stamp]:
    """Return those of the files that are not as they are known."""
    return {path: stamp for path, stamp in files.items() if known.get(path) != stamp}


def in_batches(files: Mapping[str, Stamp], limit: int = BATCH_BYTES) -> Iterator[list[Piece]]:
    """Yield the pieces of files in batches of `limit` bytes at most, each file's in their order."""
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
    """Return what is in pieces of files: less where a file has become shorter, None where it is gone."""
    return [_read(os.path.join(directory, piece.path), piece) for piece in pieces]


def _read(path: str, piece: Piece) -> bytes | None:
    try:
        with open(path, "rb") as file:
            file.seek(piece.offset)
            return file.read(piece.length)
    except OSError:
        return None


def write_pieces(directory: str, pieces: Iterable[Piece], contents: Iterable[bytes | None]) -> None:
    """Write pieces of files; a file gets its name, and the time of its change, with its last piece.

    Raises TuneError for a path that leads out of the directory.
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
