"""Clean up after the agent of a remote driver that is killed. On nodes, the template does this."""

from __future__ import annotations

import os
import traceback

from kernel_processes.node.sessions import clean_up
from kernel_processes.system.processes import set_title


def fork_guard(directory: str) -> None:
    """Fork a process that waits for the end of this one, and then removes the session in `directory`.

    This process must have one thread. Where it ends in good order there is nothing left to remove.
    """
    reader, _ = os.pipe()
    if os.fork() == 0:
        _guard(reader, directory)
    os.close(reader)


def _guard(reader: int, directory: str) -> None:
    try:
        os.closerange(3, reader)
        os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX"))
        os.close(0)
        set_title("kernel: guard")
        os.read(reader, 1)  # Ends with the last writer, the agent.
        clean_up(directory)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
