"""End a node's processes: they send their last messages and output, and end before the agent does."""

from __future__ import annotations

import os
from collections.abc import Callable

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.log_service import LogService
from kernel_processes.node.process_table import ProcessTable
from kernel_processes.node.worker_pool import WorkerPool
from kernel_processes.system.processes import end_descendants

_TURN_SECONDS = 0.05


def end_processes(
    pool: WorkerPool,
    processes: ProcessTable,
    logs: LogService,
    reason: str,
    seconds: float,
    clock: Callable[[], float],
    turn: Callable[[float], object],
    spared: frozenset[int],
) -> None:
    """Have workers and drivers end, and show what they wrote until then.

    Workers may take `seconds` on `clock`, while `turn(seconds)` serves them. What else the agent has started is ended
    then, but for the process ids in `spared`.
    """
    for worker in pool.workers.values():
        worker.cause = worker.cause or f"its node ended: {reason}"
    for connection in processes.connections.values():
        connection.send(packed(op.EndProcess(reason=reason, drain=False, kindly=True)))
        connection.flush()
    deadline = clock() + seconds
    while pool.workers and clock() < deadline:
        turn(_TURN_SECONDS)
    end_descendants(os.getpid(), spared)
    logs.drain()
    processes.close("the session ended")
