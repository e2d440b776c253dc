"""The last references of a program may be collected when the modules that they need are gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import kernel
from kernel.api import generators
from kernel.runtime import object_ref

kernel.init(local_mode=True)

@kernel.remote(num_returns="streaming")
def stream():
    yield 1

held = {made}
vars(generators).clear()
vars(object_ref).clear()
del held
"""


@pytest.mark.parametrize("made", ["kernel.put(1)", "stream.remote()"])
def test_nothing_is_said_when_a_reference_outlives_its_module(made: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(made=made)], capture_output=True, text=True)
    assert "Exception ignored" not in done.stderr, done.stderr
