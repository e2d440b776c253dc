"""Find files of recorded experience: by folders, globs and addresses, on this machine or elsewhere by fsspec."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import IO, Any
from urllib.parse import unquote

from kernel_rllib.errors import DataError, MissingDependencyError


def is_remote(path: str) -> bool:
    """Return whether a path is an address that another file system than that of this machine has."""
    scheme, colon, _ = path.partition(":")
    return bool(colon) and len(scheme) > 1 and scheme.replace("+", "").isalnum() and scheme != "file"


def local_path(path: str) -> str:
    """Return the absolute path of a file or folder of this machine."""
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    return os.path.abspath(os.path.expanduser(path))


def found_files(sources: str | Sequence[str], endings: Sequence[str]) -> list[str]:
    """Return the files that there are now, in the order of their names.

    Args:
        sources: Folders, globs and files, or one of them.
        endings: The endings of the names of files in folders.

    Raises:
        MissingDependencyError: If a source is elsewhere, and the library that reaches it is not installed.
    """
    found: list[str] = []
    for source in [sources] if isinstance(sources, str) else sources:
        found += _remote_files(source, endings) if is_remote(source) else _local_files(local_path(source), endings)
    return sorted(dict.fromkeys(found))


def open_to_read(path: str) -> IO[bytes]:
    """Open a file of bytes. Raises DataError if it can't be opened."""
    try:
        if is_remote(path):
            system, inside = _system_of(path)
            opened: IO[bytes] = system.open(inside, "rb")
            return opened
        return open(local_path(path), "rb")
    except OSError as error:
        raise DataError(f"recorded experience can't be read from {path}: {error}") from error


def open_to_write(path: str) -> IO[bytes]:
    """Open a new file of bytes, in a folder that is made where it is missing. Raises DataError if that fails."""
    try:
        if is_remote(path):
            system, inside = _system_of(path)
            system.makedirs(inside.rpartition("/")[0], exist_ok=True)
            opened: IO[bytes] = system.open(inside, "wb")
            return opened
        os.makedirs(os.path.dirname(local_path(path)), exist_ok=True)
        return open(local_path(path), "wb")
    except OSError as error:
        raise DataError(f"experience can't be written to {path}: {error}") from error


def _local_files(path: str, endings: Sequence[str]) -> list[str]:
    if os.path.isdir(path):
        return [os.path.join(path, name) for name in os.listdir(path) if name.endswith(tuple(endings))]
    return [name for name in glob.glob(path, recursive=True) if os.path.isfile(name)]


def _remote_files(address: str, endings: Sequence[str]) -> list[str]:
    system, inside = _system_of(address)
    scheme = address.partition(":")[0]
    if any(sign in inside for sign in "*?["):
        names = system.glob(inside)
    elif system.isdir(inside):
        names = [name for name in system.ls(inside, detail=False) if name.endswith(tuple(endings))]
    else:
        return [address]
    return [f"{scheme}://{name.lstrip('/') if scheme != 'hdfs' else name}" for name in names]


def _system_of(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingDependencyError(
            f"{address} is on another file system, which fsspec reaches: pip install fsspec"
        ) from error
    try:
        system, inside = url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise MissingDependencyError(f"{address} can't be reached: {error}") from error
    return system, inside
