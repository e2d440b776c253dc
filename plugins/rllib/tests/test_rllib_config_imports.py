"""The config is light: it loads nothing that is large."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["kernel_rllib.config", "kernel_rllib.config.algorithm_config"])
def test_no_library_is_loaded_for_settings(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(name for name in sys.modules if '.' not in name))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "kernel_rllib" in loaded
    assert not {"gymnasium", "numpy", "torch", "scipy", "structlog", "kernel", "dataclasses", "inspect"} & set(loaded)
