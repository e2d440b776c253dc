"""Copying the files of trials from other machines to the driver's and back, by the setting `sync_to_driver`."""

from __future__ import annotations

import logging
from typing import Any, Protocol

import kernel
from kernel_runs.storage.copies import Copy
from kernel_tune.errors import TuneError
from kernel_tune.storage.sync import make_copy
from kernel_tune.storage.trial_files import (
    Stamp,
    changed,
    files_to_bring,
    in_batches,
    list_files,
    read_pieces,
    write_pieces,
)
from kernel_tune.trainable.trial_directory import TrialDirectory

_log = logging.getLogger("kernel.tune")

Known = dict[str, Stamp]
"""The files that are equal on both machines, with their stamps."""


class Transfer(Protocol):
    """Copies files. It is called in threads, once at a time for each trial; it may take long, and may raise."""

    def fetch(self, place: TrialDirectory, directory: str, known: Known) -> None:
        """Copy new files of a trial into `directory` on the driver's machine, and update `known`."""

    def bring(self, directory: str, place: TrialDirectory, known: Known) -> None:
        """Copy the files in `directory` on the driver's machine to the trial's, and update `known`."""


class KernelTransfer:
    """Copies by tasks on the trial's node, a batch at a time, without ssh, rsync or a shared file system."""

    def __init__(self) -> None:
        remote = kernel.remote(num_cpus=0, max_retries=1)
        self._list, self._read, self._write = remote(list_files), remote(read_pieces), remote(write_pieces)

    def fetch(self, place: TrialDirectory, directory: str, known: Known) -> None:
        """See `Transfer`."""
        there: Known = self._on(place, self._list, place.directory)
        new = changed(changed(there, known), list_files(directory))
        for batch in in_batches(new):
            write_pieces(directory, batch, self._on(place, self._read, place.directory, batch))
        known.update(there)

    def bring(self, directory: str, place: TrialDirectory, known: Known) -> None:
        """See `Transfer`."""
        here = files_to_bring(directory)
        for batch in in_batches(changed(here, place.files)):
            self._on(place, self._write, place.directory, batch, read_pieces(directory, batch))
        known.update(here)

    def _on(self, place: TrialDirectory, task: Any, *arguments: Any) -> Any:
        strategy = kernel.NodeAffinitySchedulingStrategy(place.node, soft=False)
        return kernel.get(task.options(scheduling_strategy=strategy).remote(*arguments))


class CopyTransfer:
    """Copies by a command or a function of source and target, on the driver's machine, which decides what is new."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy

    def fetch(self, place: TrialDirectory, directory: str, known: Known) -> None:
        """See `Transfer`."""
        self._copy(place.source, directory)

    def bring(self, directory: str, place: TrialDirectory, known: Known) -> None:
        """See `Transfer`."""
        self._copy(directory, place.source)


def make_transfer(sync_to_driver: Any) -> Transfer | None:
    """Return the transfer for `sync_to_driver`: None and True (by kernel), False (no copies), a command, a function.

    Raises ValueError for a command without `{source}` and `{target}`, TuneError for anything else.
    """
    if sync_to_driver is None or sync_to_driver is True:
        return KernelTransfer()
    if sync_to_driver is False:
        return None
    copy = make_copy(sync_to_driver) if isinstance(sync_to_driver, str) or callable(sync_to_driver) else None
    if copy is None:
        raise TuneError(
            f"sync_to_driver is {sync_to_driver!r}: it is None or True (by kernel itself), False (not at all), a "
            "command with {source} and {target}, or a function of both"
        )
    return CopyTransfer(copy)
