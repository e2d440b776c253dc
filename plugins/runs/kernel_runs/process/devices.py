"""Which GPUs a trial's process sees: those that were reserved for it, and none if none were."""

from __future__ import annotations

import os

import kernel

VISIBLE = "CUDA_VISIBLE_DEVICES"


class VisibleDevices:
    """Sets the variable that CUDA goes by, and sets it back: in local mode the process is the program's own."""

    def __init__(self) -> None:
        self._is_set = False
        self._before: str | None = None

    def show(self) -> None:
        """Have what is imported from now on see the process' own GPUs. An accelerator plugin may have done so."""
        own = kernel.get_gpu_ids()
        if self._is_set or (own and VISIBLE in os.environ):
            return
        self._is_set, self._before = True, os.environ.get(VISIBLE)
        os.environ[VISIBLE] = ",".join(map(str, own))

    def undo(self) -> None:
        """Set back what was before."""
        if not self._is_set:
            return
        self._is_set = False
        if self._before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = self._before
