"""Look into the object stores of the session, for tests of what must be freed."""

from __future__ import annotations

import gc

from kernel.runtime.current import get_runtime


def stored_bytes() -> int:
    """Return how many bytes the session's object stores hold, after what this process can collect was collected."""
    gc.collect()
    return int(get_runtime().query("status")["store"]["used"])
