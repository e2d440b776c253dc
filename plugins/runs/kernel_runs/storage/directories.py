"""The directories of checkpoints in that of a run: named, published at one stroke, listed, packed into bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator

from kernel_runs.errors import CheckpointError

METADATA_FILE = ".metadata.json"
"""In a checkpoint: what was noted about it, and may change later."""
_UNFINISHED = ".checkpoint_"
_OLD = ".old_"
_NAME = re.compile(r"checkpoint_0*(\d+)")
_SHORT_NAME = re.compile(r"(?<![^/])checkpoint_(\d+)(?=/|$)")


def publish(directory: str, path: str) -> str:
    """Give a finished directory the name of a checkpoint, at one stroke: nobody sees half of one. Return `path`.

    What was at `path` before is replaced.
    """
    _write_through(directory)
    if os.path.isdir(path):
        old = tempfile.mkdtemp(prefix=_OLD, dir=os.path.dirname(path))
        os.rename(path, os.path.join(old, os.path.basename(path)))
        os.rename(directory, path)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(directory, path)
    return path


def unfinished_directory(home: str, suffix: str = "") -> str:
    """Make and return a directory for a checkpoint that is being written, in the trial's. `suffix` ends its name."""
    return tempfile.mkdtemp(prefix=_UNFINISHED, suffix=suffix, dir=home)


@contextlib.contextmanager
def being_written(home: str, iteration: int, resumed_by: str = "") -> Iterator[str]:
    """Give such a directory for the checkpoint after an iteration; it is deleted if the body raises.

    Raises CheckpointError that says how much room there is where the disk is full. `resumed_by` says how to go on then,
    where that is not an experiment of Tune.
    """
    how = resumed_by or (
        "make room (CheckpointConfig(num_to_keep=...) keeps fewer), and resume with resume='ERRORED' or "
        "Tuner.restore(..., resume_errored=True)"
    )
    directory = ""
    try:
        directory = unfinished_directory(home)
        yield directory
    except BaseException as error:
        if directory:
            shutil.rmtree(directory, ignore_errors=True)
        if _is_of_full_disk(error):
            raise CheckpointError(
                f"the checkpoint after iteration {iteration} can't be written to {home}: no space left on device "
                f"({shutil.disk_usage(home).free:,} bytes are free now). The one before it is kept, and the trial can "
                f"go on from there: {how}"
            ) from error
        raise


def _is_of_full_disk(error: BaseException) -> bool:
    if error.__cause__ is not None:
        return _is_of_full_disk(error.__cause__)
    numbers = (errno.ENOSPC, errno.EDQUOT)
    if isinstance(error, shutil.Error):  # of copytree: a list of what went wrong, as text
        return any(f"[Errno {number}]" in str(error) for number in numbers)
    return isinstance(error, OSError) and error.errno in numbers


def clear_unfinished(home: str) -> None:
    """Delete what a killed process was writing when it died. A checkpoint that it was about to replace is put back."""
    for name in os.listdir(home):
        path = os.path.join(home, name)
        if name.startswith(_OLD):
            with contextlib.suppress(OSError):
                for old in os.listdir(path):
                    if not os.path.exists(os.path.join(home, old)):
                        os.rename(os.path.join(path, old), os.path.join(home, old))
        if name.startswith((_OLD, _UNFINISHED)):
            shutil.rmtree(path, ignore_errors=True)


def _write_through(directory: str) -> None:
    """Have the files on the disk before the name says that they are there."""
    for folder, _, files in os.walk(directory):
        for name in files:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def directory_name(iteration: int) -> str:
    """Return the name of the directory of the checkpoint that was made after an iteration."""
    return f"checkpoint_{iteration:06d}"


def checkpoint_directories(directory: str) -> list[tuple[int, str]]:
    """Return number and path of each checkpoint in a trial's directory, the oldest first."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [(int(match[1]), os.path.join(directory, name)) for name in names if (match := _NAME.fullmatch(name))]
    return sorted((number, path) for number, path in found if os.path.isdir(path))


def written_as(path: str) -> str:
    """Return where the checkpoint is that a path means: what older programs call `checkpoint_5` is `checkpoint_000005`.

    Whatever follows it in the path stays.
    """
    found = _SHORT_NAME.search(path)
    if found is None or os.path.exists(path):
        return path
    directory = path[: found.start()] + directory_name(int(found[1]))
    return directory + path[found.end() :] if os.path.isdir(directory) else path


def sizes_of(directory: str) -> dict[str, int]:
    """Return how long the files of a checkpoint are, in bytes, by their path in it; not its metadata, which change."""
    return {
        os.path.relpath(path, directory): os.path.getsize(path)
        for path in (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
        if not path.endswith(METADATA_FILE)
    }


def damage_of(directory: str, sizes: dict[str, int] | None) -> str:
    """Say what a checkpoint lacks of what it had when it was made; nothing if it is whole, as far as is known."""
    if not os.path.isdir(directory):
        return "it is not there"
    there = sizes_of(directory)
    for name, size in (sizes or {}).items():
        if name not in there:
            return f"its file {name} is not there"
        if there[name] < size:
            return f"its file {name} has {there[name]:,} of {size:,} bytes"
    return ""


def pack(directory: str) -> dict[str, bytes]:
    """Return the files of a directory as bytes, by their path in it: a checkpoint in memory."""
    files = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory)] = file.read()
    return files


def unpack(files: dict[str, bytes], directory: str) -> None:
    """Write what `pack` has returned into a directory."""
    for relative, data in files.items():
        path = os.path.join(directory, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
