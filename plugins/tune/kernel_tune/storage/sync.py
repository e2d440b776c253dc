"""Copies of an experiment elsewhere, from which it can be resumed."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.storage import copies
from kernel_runs.storage.copies import Copy, SyncCallback, check_address, is_remote
from kernel_runs.storage.places import results_directory
from kernel_tune.storage.experiment_files import LOG_FILE, SNAPSHOT_FILE

__all__ = [
    "Copy", "SyncCallback", "check_address", "copy_by_fsspec", "exists", "fetch_experiment", "is_remote", "make_copy",
]  # fmt: skip

_LAST = (LOG_FILE, SNAPSHOT_FILE)
"""The files that are copied last, in this order: a snapshot needs a log of at least its length."""


def copy_by_fsspec(source: str, target: str) -> None:
    """Copy new files of an experiment. One of the two is an address. The copy can be resumed at any moment."""
    copies.copy_by_fsspec(source, target, _LAST)


def make_copy(syncer: Any) -> Copy | None:
    """Return a copy function for a syncer; see `kernel_runs.storage.copies.make_copy`."""
    return copies.make_copy(syncer, copy_by_fsspec)


def fetch_experiment(address: str, into: str | None = None) -> str:
    """Copy an experiment from an address to a local directory, and return the directory."""
    target = into or os.path.join(results_directory(), address.rstrip("/").rsplit("/", 1)[-1])
    os.makedirs(target, exist_ok=True)
    copy_by_fsspec(address, target)
    return target


def exists(address: str) -> bool:
    """Return whether there is an experiment that can be resumed at an address."""
    import fsspec  # here: only for addresses

    filesystem, root = fsspec.core.url_to_fs(address)
    return all(filesystem.exists(f"{root.rstrip('/')}/{name}") for name in (LOG_FILE, SNAPSHOT_FILE))
