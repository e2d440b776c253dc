"""What a task printed before its result was there reaches the driver, however soon the program ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import kernel
from kernel.runtime import core

core._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment

kernel.init(num_cpus=1)

@kernel.remote
def speak():
    print("said by a task")

kernel.get(speak.remote())
"""
SECONDS = 120.0


@pytest.mark.parametrize("ending", ["kernel.shutdown()", ""], ids=["shutdown", "end of the program"])
def test_nothing_that_was_printed_is_lost(ending: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    for _ in range(5):
        command = [sys.executable, "-c", PROGRAM + ending]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)
        assert "said by a task\n" in said.stdout, said.stderr
