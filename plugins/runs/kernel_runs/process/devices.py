"""The GPUs that a trial's process sees: those that are reserved for it, or none."""

from __future__ import annotations

import os

import kernel

VISIBLE = "CUDA_VISIBLE_DEVICES"


class VisibleDevices:
    """Sets the variable that CUDA reads, and restores it: in local mode the process is the driver itself."""

    def __init__(self) -> None:
        self._is_set = False
        self._before: str | None = None

    def show(self) -> None:
        """Make only the process' own GPUs visible to libraries that are imported later.

        An accelerator plugin may have done so already.
        """
        own = kernel.get_gpu_ids()
        if self._is_set or (own and VISIBLE in os.environ):
            return
        self._is_set, self._before = True, os.environ.get(VISIBLE)
        os.environ[VISIBLE] = ",".join(map(str, own))

    def undo(self) -> None:
        """Restore the variable."""
        if not self._is_set:
            return
        self._is_set = False
        if self._before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = self._before
