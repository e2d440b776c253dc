"""Where no network is installed, a session of one machine works, and all that needs others says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.installing import install_command

SECONDS = 120.0
NEEDED = (
    "a node that works with other machines, and a program that joins a cluster, need the network 'tcp', which is not "
    f"installed: {install_command('network_tcp')}"
)
HIDDEN = """\
name = "kernel_network_tcp"
raise ModuleNotFoundError(f"No module named {name!r}", name=name)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which nobody can import the network of TCP, as if it were not installed."""
    hidden = tmp_path / "hidden" / "kernel_network_tcp"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text(HIDDEN)
    return {**os.environ, "PYTHONPATH": str(hidden.parent)}


def run(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program, and return how it ended."""
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_a_session_of_one_machine_works(environment: dict[str, str]) -> None:
    program = (
        "import kernel, numpy\n"
        "with kernel.init(num_cpus=1):\n"
        "    large = kernel.put(numpy.ones(1_000_000))\n"
        "    print(kernel.get(kernel.remote(lambda array: array.sum()).remote(large)))\n"
        "try:\n"
        "    import kernel_network_tcp\n"
        "except ModuleNotFoundError:\n"
        "    print('hidden')\n"
    )
    done = run(environment, "-c", program)
    assert (done.stdout, done.returncode) == ("1000000.0\nhidden\n", 0), done.stderr


@pytest.mark.parametrize("what", [["--head"], ["--address=127.0.0.1:9"]])
def test_a_node_that_others_reach_says_what_to_install(environment: dict[str, str], what: list[str]) -> None:
    environment["KERNEL_TOKEN"] = "5" * 64
    done = run(environment, "-m", "kernel.cli.main", "start", *what, "--port=0")
    assert (done.stderr, done.returncode) == (f"kernel: {NEEDED}\n", 2)


def test_a_program_that_joins_a_cluster_from_outside_says_what_to_install(environment: dict[str, str]) -> None:
    environment["KERNEL_TOKEN"] = "5" * 64
    done = run(environment, "-c", "import kernel; kernel.init('kernel://127.0.0.1:9')")
    assert done.stderr.splitlines()[-1].endswith(f"PluginNotFoundError: {NEEDED}"), done.stderr
