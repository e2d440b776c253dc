"""Find the directory of a user's sessions, which belongs to that user alone."""

from __future__ import annotations

import os
import stat

from kernel.working_directory import working_directory
from kernel_spec.errors import UsageError


def root_directory(given: str | None = None) -> str:
    """Return (made if need be) where this user's sessions live; raises UsageError when it is not private."""
    root = root_path(given)
    try:
        os.makedirs(root, mode=0o700, exist_ok=True)
        private = is_private(root)
    except OSError as error:
        raise UsageError(f"the session directory {root} can't be used: {error.strerror}; set KERNEL_TMPDIR") from error
    if not private:
        raise UsageError(
            f"{root} must belong to you alone (mode 0700) and be a directory, not a link to one; "
            "remove it or set KERNEL_TMPDIR"
        )
    return root


def is_private(path: str) -> bool:
    """Return whether `path` is a directory, not a link to one, that its user alone may enter; raises OSError."""
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def root_path(given: str | None = None) -> str:
    """Return where this user's sessions live, below `given` or the directory for temporary files."""
    base = given or os.environ.get("KERNEL_TMPDIR")
    if not base:
        import tempfile  # Agents do not need it: their settings have the directory.

        base = tempfile.gettempdir()
    if not os.path.isabs(base):
        base = os.path.join(working_directory(), base)
    return os.path.join(os.path.normpath(base), f"kernel-{os.getuid()}")
