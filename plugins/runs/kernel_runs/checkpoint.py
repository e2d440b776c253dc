"""Checkpoints: directories of files, local or at any fsspec address, with a little metadata."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from kernel_runs.errors import CheckpointError
from kernel_runs.storage.directories import METADATA_FILE

_DICTIONARY_FILE = "dict_checkpoint.pkl"
_PREPROCESSOR_FILE = "preprocessor.pkl"
_LOCAL = "file://"


class Checkpoint:
    """A directory that a trainable has written. `path` is local, or an address like `s3://bucket/folder`.

    It is created from a directory, a dict, bytes or an address (`from_...`), and converted to each of these (`to_...`).
    """

    _deletion: Any = None
    """Deletes the temporary directory when this object is garbage collected; None if the directory is to stay."""

    def __init__(self, path: str | os.PathLike[str], filesystem: Any = None) -> None:
        self.path = os.fspath(path)
        self.filesystem = filesystem

    # -- creation ----------------------------------------------------------------------------------------------------

    @classmethod
    def from_directory(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """Return a checkpoint for a local directory. Its files are not copied before the checkpoint is reported."""
        return cls(os.path.abspath(os.fspath(path)))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Checkpoint:
        """Return a checkpoint in a new temporary directory that holds a dict; `to_dict` returns the dict again.

        The directory is deleted with the object. If the object was pickled, it stays: another process may need it.
        """
        checkpoint = cls._in_new_directory()
        with open(os.path.join(checkpoint.path, _DICTIONARY_FILE), "wb") as file:
            pickle.dump(data, file)
        return checkpoint

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint:
        """Return a checkpoint in a new temporary directory, from the bytes that `to_bytes` has returned.

        The directory is deleted with the object, as in `from_dict`. Raises CheckpointError for other bytes.
        """
        from kernel_runs.storage.archives import from_archive  # here: few checkpoints become bytes

        checkpoint = cls._in_new_directory()
        from_archive(data, checkpoint.path)
        return checkpoint

    @classmethod
    def from_uri(cls, uri: str) -> Checkpoint:
        """Return a checkpoint for an fsspec address. Nothing is fetched before its files are needed."""
        return cls(uri.removeprefix(_LOCAL))

    @classmethod
    def _in_new_directory(cls) -> Checkpoint:
        directory = tempfile.mkdtemp(prefix="checkpoint_")
        checkpoint = cls(directory)
        checkpoint._deletion = weakref.finalize(checkpoint, shutil.rmtree, directory, ignore_errors=True)
        return checkpoint

    # -- conversion --------------------------------------------------------------------------------------------------

    @property
    def is_local(self) -> bool:
        """Whether its files can be read on this machine without copying them."""
        return self.filesystem is None and "://" not in self.path

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Provide a local directory with the files during a `with` block. The files must not be changed."""
        if self.is_local:
            self._check_there(os.path.isdir(self.path))
            yield self.path
            return
        directory = self.to_directory()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def to_directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Copy the files to a local directory and return it. By default it is a new temporary directory."""
        target = os.fspath(path) if path is not None else tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(target, exist_ok=True)
        if self.is_local:
            self._check_there(os.path.isdir(self.path))
            shutil.copytree(self.path, target, dirs_exist_ok=True)
            return target
        filesystem, folder = self._remote()
        self._check_there(filesystem.exists(folder))
        filesystem.get(folder.rstrip("/") + "/", target.rstrip("/") + "/", recursive=True)
        return target

    def to_dict(self) -> dict[str, Any]:
        """Return the dict of `from_dict`. Raises CheckpointError if the checkpoint was made of files."""
        with self.as_directory() as directory:
            path = os.path.join(directory, _DICTIONARY_FILE)
            if not os.path.exists(path):
                raise CheckpointError(f"checkpoint {self.path} was made of files, not of a dict: use as_directory()")
            with open(path, "rb") as file:
                value: dict[str, Any] = pickle.load(file)
            return value

    def to_bytes(self) -> bytes:
        """Return all files and the metadata as bytes for `from_bytes`. The files are in memory at once."""
        from kernel_runs.storage.archives import to_archive  # see above

        with self.as_directory() as directory:
            return to_archive(directory)

    def to_uri(self, uri: str) -> str:
        """Copy the files to an fsspec address, such as `s3://bucket/folder`, and return the address."""
        import fsspec  # here: what stays here does not need it

        filesystem, folder = fsspec.core.url_to_fs(uri)
        with self.as_directory() as directory:
            filesystem.makedirs(folder, exist_ok=True)
            filesystem.put(directory.rstrip("/") + "/", folder.rstrip("/") + "/", recursive=True)
        return uri

    # -- metadata ----------------------------------------------------------------------------------------------------

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata; an empty dict if none were set."""
        data = self._read(METADATA_FILE)
        return {} if data is None else dict(json.loads(data))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata. They must be serializable as JSON."""
        self._write(METADATA_FILE, json.dumps(metadata).encode())

    def update_metadata(self, metadata: dict[str, Any]) -> None:
        """Add to the metadata."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def get_preprocessor(self) -> Any:
        """Return the object of `with_preprocessor`, or None. Its module must be importable here."""
        data = self._read(_PREPROCESSOR_FILE)
        return None if data is None else pickle.loads(data)

    def with_preprocessor(self, preprocessor: Any) -> Checkpoint:
        """Store an object that transforms data before the model sees them, in this checkpoint, and return the
        checkpoint.

        `preprocessor` is any object that can be pickled. It replaces one that was stored before.
        """
        import cloudpickle  # here: most checkpoints have none

        self._write(_PREPROCESSOR_FILE, cloudpickle.dumps(preprocessor, protocol=5))
        return self

    # -- files -------------------------------------------------------------------------------------------------------

    def _read(self, name: str) -> bytes | None:
        """Return the content of one of its files, or None if there is no such file."""
        try:
            if self.is_local:
                with open(os.path.join(self.path, name), "rb") as file:
                    return file.read()
            filesystem, folder = self._remote()
            return bytes(filesystem.cat_file(f"{folder}/{name}"))
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        if self.is_local:
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(data)
        else:
            filesystem, folder = self._remote()
            filesystem.pipe_file(f"{folder}/{name}", data)

    def _remote(self) -> tuple[Any, str]:
        if self.filesystem is not None:
            return self.filesystem, self.path
        import fsspec  # see above

        filesystem, folder = fsspec.core.url_to_fs(self.path)
        return filesystem, folder

    def _check_there(self, is_there: bool) -> None:
        if not is_there:
            raise CheckpointError(f"checkpoint {self.path} does not exist (any more)")

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
