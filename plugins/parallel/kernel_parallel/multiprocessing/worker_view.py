"""A worker of a pool, as much of `multiprocessing.Process` as programs look at."""

from __future__ import annotations

from typing import Any

import kernel
from kernel.exceptions import KernelError


class WorkerView:
    """The view of a worker process."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """The process id on its node; waits until the worker is idle."""
        if self._pid is None:
            self._pid = int(kernel.get(self._actor.pid.remote()))
        return self._pid

    def is_alive(self) -> bool:
        """Return whether the process is there; waits until the worker is idle."""
        try:
            kernel.get(self._actor.pid.remote())
        except KernelError:
            return False
        return True
