"""Starting threads and processes where the system may have no room for one more."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

NO_ROOM = "this user may have no more processes and threads; allow more with `ulimit -u`, or end some"


def begin_thread(work: Callable[[], object], name: str) -> threading.Thread | None:
    """Return a daemon thread that has begun to call `work()`; None where the system allows no more."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def why_no_process(error: OSError) -> str:
    """Return why a process could not be started, and what to do about it."""
    return f"{error.strerror}: {NO_ROOM}" if error.errno == errno.EAGAIN else error.strerror or str(error)
