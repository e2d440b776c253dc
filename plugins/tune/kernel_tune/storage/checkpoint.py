"""Checkpoints: a directory of files, here or at any fsspec address, and a little metadata beside them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pickle
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from kernel_tune.errors import CheckpointError

METADATA_FILE = ".metadata.json"
_DICTIONARY_FILE = "dict_checkpoint.pkl"
_UNFINISHED = ".checkpoint_"
_OLD = ".old_"
_NAME = re.compile(r"checkpoint_0*(\d+)")
_SHORT_NAME = re.compile(r"(?<![^/])checkpoint_(\d+)(?=/|$)")


class Checkpoint:
    """A directory that a trainable has written. `path` may be local or an address like `s3://bucket/folder`."""

    _deletion: Any = None
    """What deletes the directory with this object, where nobody else has it."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        self.path = os.fspath(path)
        self.filesystem = filesystem

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Return the checkpoint that is a local directory. It is not copied before it is reported."""
        return cls(os.path.abspath(os.fspath(path)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """Return a checkpoint in a new temporary directory that holds a dict; `to_dict` gives it back.

        The directory goes with the object, unless the object was pickled: then another process may need it.
        """
        directory = tempfile.mkdtemp(prefix="checkpoint_")
        with open(os.path.join(directory, _DICTIONARY_FILE), "wb") as file:
            pickle.dump(data, file)
        checkpoint = cls(directory)
        checkpoint._deletion = weakref.finalize(checkpoint, shutil.rmtree, directory, ignore_errors=True)
        return checkpoint

    def to_dict(self) -> dict[str, Any]:
        """Return the dict of `from_dict`. Raises CheckpointError where the checkpoint was made of files."""
        with self.as_directory() as directory:
            path = os.path.join(directory, _DICTIONARY_FILE)
            if not os.path.exists(path):
                raise CheckpointError(f"checkpoint {self.path} was made of files, not of a dict: use as_directory()")
            with open(path, "rb") as file:
                value: dict[str, Any] = pickle.load(file)
            return value

    @property
    def is_local(self) -> bool:
        """Whether its files can be read where this runs without copying them."""
        return self.filesystem is None and "://" not in self.path

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Give a local directory with the files, for the length of a `with`. What is there must not be changed."""
        if self.is_local:
            if not os.path.isdir(self.path):
                raise CheckpointError(f"checkpoint {self.path} is not there (any more)")
            yield self.path
            return
        directory = self.to_directory()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files to a local directory, a new temporary one by default; return it."""
        target = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(target, exist_ok=True)
        if self.is_local:
            if not os.path.isdir(self.path):
                raise CheckpointError(f"checkpoint {self.path} is not there (any more)")
            shutil.copytree(self.path, target, dirs_exist_ok=True)
            return target
        filesystem, folder = self._remote()
        if not filesystem.exists(folder):
            raise CheckpointError(f"checkpoint {self.path} is not there (any more)")
        filesystem.get(folder.rstrip("/") + "/", target.rstrip("/") + "/", recursive=True)
        return target

    def get_metadata(self) -> dict[str, Any]:
        """Return what was noted about it; nothing if nothing was."""
        try:
            if self.is_local:
                with open(os.path.join(self.path, METADATA_FILE), encoding="utf-8") as file:
                    value: dict[str, Any] = json.load(file)
                return value
            filesystem, folder = self._remote()
            return dict(json.loads(filesystem.cat_file(f"{folder}/{METADATA_FILE}")))
        except FileNotFoundError:
            return {}

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Note something about it, in place of what was noted before. `metadata` must be what JSON can say."""
        text = json.dumps(metadata)
        if self.is_local:
            with open(os.path.join(self.path, METADATA_FILE), "w", encoding="utf-8") as file:
                file.write(text)
        else:
            filesystem, folder = self._remote()
            filesystem.pipe_file(f"{folder}/{METADATA_FILE}", text.encode())

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Note something more about it."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def _remote(self) -> tuple[Any, str]:
        if self.filesystem is not None:
            return self.filesystem, self.path
        import fsspec  # here: what is local does not need it

        filesystem, folder = fsspec.core.url_to_fs(self.path)
        return filesystem, folder

    def __getstate__(self) -> dict[str, Any]:
        if self._deletion is not None:
            self._deletion.detach()
        return {**self.__dict__, "_deletion": None}

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checkpoint) and (other.path, other.filesystem) == (self.path, self.filesystem)

    def __hash__(self) -> int:
        return hash(self.path)


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
def being_written(home: str, iteration: int) -> Iterator[str]:
    """Give such a directory for the checkpoint after an iteration; it is deleted if the body raises.

    Raises CheckpointError that says how much room there is where the disk is full.
    """
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
                "go on from there: make room (CheckpointConfig(num_to_keep=...) keeps fewer), and resume with "
                "resume='ERRORED' or Tuner.restore(..., resume_errored=True)"
            ) from error
        raise


def _is_of_full_disk(error: BaseException) -> bool:
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
