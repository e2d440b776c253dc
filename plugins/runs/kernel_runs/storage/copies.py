"""Copies of a directory elsewhere: at any fsspec address, by a command, or by a function."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_runs.errors import RunError
from kernel_runs.run import Run

_log = logging.getLogger("kernel.runs")

Copy = Callable[[str, str], Any]
"""Copies a directory: `copy(source, target)`. One of the two is an address."""


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is an address such as `s3://bucket/folder`."""
    return "://" in os.fspath(path)


def copy_by_fsspec(source: str, target: str, last: Sequence[str] = ()) -> None:
    """Copy files that are new, differ in size or are younger. One of the two directories is an address.

    `last` are the files that describe the state of a run, by their paths in the directory. Their content is taken at
    the beginning, in reverse order, and they are written last, in this order. So all files that they name are there.
    """
    import fsspec  # here: only for addresses

    if is_remote(target):
        filesystem, root = fsspec.core.url_to_fs(target)
        _copy_up(source, filesystem, root, list(last))
        return
    filesystem, root = fsspec.core.url_to_fs(source)
    if not filesystem.exists(root):
        raise RunError(f"there is nothing at {source}")
    filesystem.invalidate_cache()
    for remote in filesystem.find(root):
        path = os.path.join(target, os.path.relpath(remote, root))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        filesystem.get_file(remote, path)


def check_address(address: str) -> None:
    """Raise RunError for an address that fsspec can't use: of an unknown kind, or of one that needs a library."""
    import fsspec  # see above

    kind = address.split("://")[0]
    try:
        fsspec.get_filesystem_class(kind)
    except (ValueError, ImportError) as error:
        raise RunError(f"nothing can be copied to {address}: {error}") from error


def _copy_up(source: str, filesystem: Any, root: str, last: list[str]) -> None:
    there = _listing(filesystem, root)
    made: set[str] = set()
    with tempfile.TemporaryDirectory() as still:
        for name in reversed(last):
            if os.path.exists(os.path.join(source, name)):
                shutil.copy2(os.path.join(source, name), os.path.join(still, name))
        for path, relative in _files(source, last):
            held = os.path.join(still, relative)
            path = held if os.path.exists(held) else path
            remote = f"{root.rstrip('/')}/{relative}"
            folder = os.path.dirname(remote)
            try:
                stat = os.stat(path)
                known = there.get(relative)
                if (
                    known is not None
                    and known[0] == stat.st_size
                    and known[1] is not None
                    and known[1] >= stat.st_mtime
                ):
                    continue
                if folder not in made:
                    filesystem.makedirs(folder, exist_ok=True)
                    made.add(folder)
                filesystem.put_file(path, remote)
            except FileNotFoundError:
                if os.path.exists(path):
                    raise  # otherwise it was a checkpoint that has been deleted meanwhile


def _listing(filesystem: Any, root: str) -> dict[str, tuple[int, float | None]]:
    filesystem.invalidate_cache()
    try:
        found = filesystem.find(root, detail=True)
    except FileNotFoundError:
        return {}
    listing = {}
    for path, info in found.items():
        changed = info.get("mtime") or info.get("LastModified") or info.get("last_modified") or info.get("created")
        if hasattr(changed, "timestamp"):
            changed = changed.timestamp()
        listing[os.path.relpath(path, root)] = (int(info.get("size") or 0), changed)
    return listing


def _files(folder: str, last: list[str]) -> list[tuple[str, str]]:
    """Return path and relative path of all files, those in `last` at the end.

    Names that begin with a dot are files that are being written, and are left out, except in checkpoints.
    """
    found = []
    for directory, folders, names in os.walk(folder):
        if not _is_checkpoint(os.path.relpath(directory, folder)):
            folders[:] = [name for name in folders if not name.startswith(".")]
            names = [name for name in names if not name.startswith(".")]
        for name in names:
            path = os.path.join(directory, name)
            found.append((path, os.path.relpath(path, folder)))
    return sorted(found, key=lambda each: (last.index(each[1]) + 1 if each[1] in last else 0, each[1]))


def _is_checkpoint(relative: str) -> bool:
    return any(part.startswith("checkpoint_") for part in relative.split(os.sep))


def make_copy(syncer: Any, by_fsspec: Copy = copy_by_fsspec) -> Copy | None:
    """Return a copy function for a syncer: "auto", a command with `{source}` and `{target}`, a function, or None.

    "auto" is `by_fsspec`. Raises ValueError for a command without both places, and for anything else.
    """
    if syncer in (None, False):
        return None
    if syncer in ("auto", True):
        return by_fsspec
    if isinstance(syncer, str):
        if "{source}" not in syncer or "{target}" not in syncer:
            raise ValueError(f"the sync command {syncer!r} must contain {{source}} and {{target}}")
        return lambda source, target: _run_command(syncer, source, target)
    if hasattr(syncer, "sync_up"):
        return lambda source, target: (
            syncer.sync_up(source, target) if is_remote(target) else syncer.sync_down(source, target)
        )
    if callable(syncer):
        return syncer  # type: ignore[no-any-return]
    raise ValueError(
        f"a syncer is 'auto', a command with {{source}} and {{target}}, a function or None, not {syncer!r}"
    )


def _run_command(template: str, source: str, target: str) -> None:
    command = template.format(source=shlex.quote(source), target=shlex.quote(target))
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    if result.returncode != 0:
        raise RunError(f"the sync command ended with {result.returncode}: {command}\n{result.stderr.strip()}")


class SyncCallback(Callback):
    """Copies an experiment's directory every `period` seconds in a thread of its own, and at the end.

    A copy that fails is logged, and tried again with the next one. The last one raises.
    """

    def __init__(
        self, source: str, target: str, copy: Copy, period: float = 300.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.source = source
        self.target = target
        self._copy = copy
        self._period = period
        self._clock = clock
        self._last = clock()
        self._thread: threading.Thread | None = None

    def on_step_end(self, iteration: int, trials: Sequence[Run], **info: Any) -> None:
        """Begin a copy when it is due, unless one is in progress."""
        if self._clock() - self._last >= self._period and (self._thread is None or not self._thread.is_alive()):
            self._last = self._clock()
            self._thread = threading.Thread(target=self._try, name="sync", daemon=True)
            self._thread.start()

    def _try(self) -> None:
        try:
            self._copy(self.source, self.target)
        except Exception as error:  # the experiment is to continue
            _log.warning("%s could not be copied to %s: %s", self.source, self.target, error)

    def after_end(self) -> None:
        """Make the last copy, when all files are written. If it fails, raise RunError that says where the files are."""
        if self._thread is not None:
            self._thread.join()
        try:
            self._copy(self.source, self.target)
        except Exception as error:
            raise RunError(
                f"the experiment has ended, and all of it is in {self.source}, but could not be copied to "
                f"{self.target}: {type(error).__name__}: {error}. Fix that and resume it: nothing runs again, "
                "and it is copied"
            ) from error
