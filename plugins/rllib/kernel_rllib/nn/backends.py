"""The backends by name."""

from __future__ import annotations

from typing import Any

from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.nn.backend import Backend
from kernel_rllib.nn.numpy_backend import NumpyBackend


def backend(name: str, device: Any = None) -> Backend:
    """Return the backend "numpy", or "torch" on `device` ("cpu", "cuda", ...).

    Raises ConfigError for another name, or another device than the CPU in numpy, and MissingDependencyError where torch
    is not installed.
    """
    if name == "numpy":
        if device not in (None, "cpu"):
            raise ConfigError(f"numpy computes on the CPU only, and device is {device!r}: take framework='torch'")
        return NumpyBackend()
    if name == "torch":
        try:
            from kernel_rllib.nn.torch_backend import TorchBackend
        except ImportError as error:
            raise MissingDependencyError(
                f"framework='torch' needs the library 'torch', which can't be imported ({error}). "
                "Run: pip install 'kernel-rllib[torch]', or take framework='numpy'"
            ) from error
        return TorchBackend(device)
    raise ConfigError(f"there is no backend {name!r}: take 'numpy' or 'torch'")
