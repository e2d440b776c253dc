"""Wait for the last output of workers before a program leaves its session, and log a warning if it is missing."""

from __future__ import annotations

from kernel_processes.runtime.process import Process
from kernel_spec.errors import KernelError

_OF_NODES = 0.8
"""Share of the time for the other nodes. The rest is for reporting which of them did not answer."""


def await_last_output(process: Process, seconds: float) -> None:
    """Let what workers have written until now reach this program; log a warning where that takes more than `seconds`.

    Each agent is asked, and answers after it has passed on what was in the pipes of its workers.
    """
    try:
        silent = process.call_agent("show_output", seconds * _OF_NODES, timeout=seconds)
    except TimeoutError:
        text = "what workers wrote last may be missing here: the node agent did not answer in time"
        process.log.warning(text, seconds=seconds)
    except KernelError:
        return  # The session has ended, as is reported elsewhere.
    else:
        if silent:
            text = "what workers wrote last may be missing here: nodes did not answer in time"
            process.log.warning(text, nodes=", ".join(silent), seconds=seconds * _OF_NODES)
