"""The end of a process that is the kernel's own."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def finish(code: int, kindly: bool = True) -> NoReturn:
    """Run exit handlers (if `kindly`), flush output, and end this process without touching what threads may hold.

    Nothing is taken apart, which would take an agent as long as a good part of its start.
    """
    try:
        if kindly:
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
