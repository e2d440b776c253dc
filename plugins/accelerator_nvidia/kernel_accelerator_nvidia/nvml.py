"""Ask the driver for devices, through NVML. If anything is missing or fails, there are no devices to use."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernel_spec.accelerators import Device


class Nvml:
    """NVML, initialized. Everything here may raise `error`."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.error: type[Exception] = library.NVMLError

    def devices(self) -> tuple[list[Device], str]:
        """Return the machine's GPUs in NVML's order, up to the first that does not answer, and why it did not."""
        devices: list[Device] = []
        for index in range(self._library.nvmlDeviceGetCount()):
            try:
                handle = self._library.nvmlDeviceGetHandleByIndex(index)
                devices.append(self._describe(handle, index))
            except self.error as problem:
                # Later GPUs would get another index here than CUDA gives them.
                return devices, f"GPU {index} does not answer: {problem}"
        return devices, ""

    def mig_instance(self, name: str, index: int) -> Device | None:
        """Return the MIG instance of that name as the device `index`, or None."""
        try:
            handle = self._library.nvmlDeviceGetHandleByUUID(name)
            return self._describe(handle, index)
        except self.error:
            return None

    def _describe(self, handle: Any, index: int) -> Device:
        return Device(
            index=index,
            id=_text(self._library.nvmlDeviceGetUUID(handle)),
            model=_text(self._library.nvmlDeviceGetName(handle)),
            memory=self._memory(handle),
        )

    def _memory(self, handle: Any) -> int:
        try:
            return int(self._library.nvmlDeviceGetMemoryInfo(handle).total)
        except self.error:
            return 0  # machines whose GPU shares the main memory do not say


@contextmanager
def opened_nvml() -> Iterator[Nvml]:
    """Open NVML for a while. Raises whatever the missing or broken part raises, ImportError included."""
    if sys.platform == "linux" and "pynvml" not in sys.modules:
        ctypes.CDLL("libnvidia-ml.so.1")  # without a driver this fails at once; pynvml takes 20 ms to find that out
    import pynvml

    pynvml.nvmlInit()
    try:
        yield Nvml(pynvml)
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
