"""The directories of checkpoints in that of a run: named, published atomically, listed, packed into bytes."""

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
"""The file in a checkpoint with its metadata, which may change later."""
_UNFINISHED = ".checkpoint_"
_OLD = ".old_"
_NAME = re.compile(r"checkpoint_0*(\d+)")
_SHORT_NAME = re.compile(r"(?<![^/])checkpoint_(\d+)(?=/|$)")


def publish(directory: str, path: str) -> str:
    """Rename a finished directory to the path of a checkpoint, and return the path.

    Readers never see a part of a checkpoint. An earlier one at that path is replaced.
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
    """Create and return a directory for a checkpoint in progress, in the trial's. `suffix` ends its name."""
    return tempfile.mkdtemp(prefix=_UNFINISHED, suffix=suffix, dir=home)


@contextlib.contextmanager
def being_written(home: str, iteration: int, resumed_by: str = "") -> Iterator[str]:
    """Provide such a directory for the checkpoint after an iteration. It is deleted if the block raises.

    Raises CheckpointError with the free space if the disk is full. `resumed_by` is advice how to resume, unless the run
    is an experiment of Tune.
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
                f"continue from there: {how}"
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
    """Delete what a killed process was writing. A checkpoint that it was about to replace is restored."""
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
    """Flush the files to disk, so that a crash can't leave a named checkpoint without its data."""
    for folder, _, files in os.walk(directory):
        for name in files:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def directory_name(iteration: int) -> str:
    """Return the name of the directory of the checkpoint after an iteration."""
    return f"checkpoint_{iteration:06d}"


def checkpoint_directories(directory: str) -> list[tuple[int, str]]:
    """Return number and path of each checkpoint in a trial's directory, oldest first."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [(int(match[1]), os.path.join(directory, name)) for name in names if (match := _NAME.fullmatch(name))]
    return sorted((number, path) for number, path in found if os.path.isdir(path))


def written_as(path: str) -> str:
    """Return the path of a checkpoint: if `checkpoint_5`, the name of older programs, is missing, `checkpoint_000005`.

    The rest of the path stays.
    """
    found = _SHORT_NAME.search(path)
    if found is None or os.path.exists(path):
        return path
    directory = path[: found.start()] + directory_name(int(found[1]))
    return directory + path[found.end() :] if os.path.isdir(directory) else path


def sizes_of(directory: str) -> dict[str, int]:
    """Return the sizes of a checkpoint's files in bytes, by their path in it, without its metadata, which change."""
    return {
        os.path.relpath(path, directory): os.path.getsize(path)
        for path in (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
        if not path.endswith(METADATA_FILE)
    }


def damage_of(directory: str, sizes: dict[str, int] | None) -> str:
    """Return what is missing from a checkpoint with files of these `sizes`; "" if nothing is known to be missing."""
    if not os.path.isdir(directory):
        return "it does not exist"
    there = sizes_of(directory)
    for name, size in (sizes or {}).items():
        if name not in there:
            return f"its file {name} is missing"
        if there[name] < size:
            return f"its file {name} has {there[name]:,} of {size:,} bytes"
    return ""


def pack(directory: str) -> dict[str, bytes]:
    """Return the files of a directory as bytes, by their path in it."""
    files = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory)] = file.read()
    return files


def unpack(files: dict[str, bytes], directory: str) -> None:
    """Write the files that `pack` has returned into a directory."""
    for relative, data in files.items():
        path = os.path.join(directory, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
