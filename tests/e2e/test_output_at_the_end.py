"""What a task printed before its result was there reaches the driver, however soon the program ends."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import kernel
from kernel_processes.runtime import process_runtime

process_runtime._OUTPUT_SECONDS = 120.0  # it would leave without what has not come after a moment

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


BUSY = """
import os, signal, sys, threading
import kernel
from kernel_processes.runtime import process_runtime
from kernel.testing.faults import agents_of

kernel.init(num_cpus=1)

@kernel.remote
class Speaker:
    def speak(self, text):
        print(text)

speaker = Speaker.remote()
kernel.get(speaker.speak.remote("said early"))
(agent,) = agents_of()
os.kill(agent, signal.SIGSTOP)
threading.Timer({busy_seconds}, os.kill, (agent, signal.SIGCONT)).start()
kernel.get(speaker.speak.remote("said late"))
process_runtime._OUTPUT_SECONDS = {seconds} or process_runtime._OUTPUT_SECONDS
kernel.shutdown()
"""


def end_beside_a_busy_agent(busy_seconds: float, seconds: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", BUSY.format(busy_seconds=busy_seconds, seconds=seconds)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=True)


def test_an_agent_that_is_busy_for_a_while_loses_nothing() -> None:
    said = end_beside_a_busy_agent(busy_seconds=2.0, seconds=0)
    assert "said late\n" in said.stdout, said.stderr
    assert "may be missing" not in said.stderr


def test_what_did_not_come_in_time_is_said_to_be_missing() -> None:
    said = end_beside_a_busy_agent(busy_seconds=2.0, seconds=0.1)
    assert "what workers wrote last may be missing here: the node agent did not answer in time" in said.stderr
    assert "seconds=0.1" in said.stderr
