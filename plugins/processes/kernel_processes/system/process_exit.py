"""End one of the kernel's own processes."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


def finish(code: int, kindly: bool = True) -> NoReturn:
    """Run exit handlers (if `kindly`), flush output, and end this process with exit code `code`.

    Modules and threads are not finalized: that would take an agent a good part of the time that its start takes, and
    could block on a lock that a thread holds.
    """
    try:
        if kindly:
            atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
