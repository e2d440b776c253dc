"""Files of checkpoints: what can't be written names its file, and a directory has a checkpoint whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import CheckpointError

_UNFINISHED = ".unfinished_save_"


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Let errors of the operating system name this file, where they name none: those of a full disk do not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_file(path: str | Path, data: bytes | str) -> None:
    """Write bytes, or text as UTF-8. An OSError names the file."""
    with naming(path), open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)


def write_array(path: str | Path, array: Array) -> None:
    """Write an array as `.npy`. An OSError names the file."""
    with naming(path), open(path, "wb") as file:
        np.lib.format.write_array(_Written(file), array, allow_pickle=False)


class _Written:
    """Wraps a file that is only written to: numpy then reports why it can't write."""

    def __init__(self, file: Any) -> None:
        self.write = file.write


@contextlib.contextmanager
def whole_or_none(directory: str | Path, last: str, what: str = "a checkpoint") -> Iterator[Path]:
    """Give a new directory to write into; what is in it goes to `directory` when the body has ended.

    If the body raises, `directory` is as it was before: what it has of an older checkpoint is still whole. Files that
    are there besides are left alone.

    Args:
        directory: It is made, if it is not there.
        last: The file that says that all others are there. It is taken away first, and comes last.
        what: The name of what is written, for messages.

    Raises:
        CheckpointError: If it can't be written; the error of the operating system is chained.
    """
    try:
        with _exchanged(Path(directory), last) as new:
            yield new
    except OSError as error:
        raise CheckpointError(
            f"{what} can't be written to {directory}: {_said(error)}. Nothing of it is left there, and what was there "
            "before is as it was: give a directory that can be written, on a disk with room"
        ) from error


def _said(error: OSError) -> str:
    """Return what an error says, with the file as users know it."""
    file = str(error.filename or "")
    _, is_new, inside = file.partition(f"/{_UNFINISHED}")
    name = inside.partition("/new/")[2] if is_new else file
    said = error.strerror or str(error)
    return f"{name}: {said}" if name else said


@contextlib.contextmanager
def _exchanged(root: Path, last: str) -> Iterator[Path]:
    was_there = root.is_dir()
    root.mkdir(parents=True, exist_ok=True)
    for left in root.glob(f"{_UNFINISHED}*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=root))
    try:
        new, old = unfinished / "new", unfinished / "old"
        new.mkdir()
        old.mkdir()
        yield new
        _exchange(root, new, old, last)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not was_there:
            with contextlib.suppress(OSError):
                root.rmdir()
        raise
    shutil.rmtree(unfinished, ignore_errors=True)


def _exchange(root: Path, new: Path, old: Path, last: str) -> None:
    """Move all that is in `new` to `root`, and what it replaces there to `old`; all or nothing."""
    names = sorted(os.listdir(new), key=lambda name: name == last)
    done: list[tuple[Path, Path]] = []
    try:
        for name in [last, *(name for name in names if name != last)]:
            if (root / name).exists():
                done.append((root / name, old / name))
                os.rename(*done[-1])
        for name in names:
            done.append((new / name, root / name))
            os.rename(*done[-1])
    except BaseException:
        for source, target in reversed(done):
            with contextlib.suppress(OSError):
                os.rename(target, source)
        raise
