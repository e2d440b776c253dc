"""What the distribution offers: a command, and the control plane that heads look for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kernel.cli.main import main
from kernel_processes.head.control_plane import find_control_plane


def test_the_command_says_in_its_help_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: kernel events")
    assert "\n    kernel events" in shown.split("Examples:")[1]
    assert max(map(len, shown.splitlines())) <= 80


def test_heads_find_the_server() -> None:
    from kernel_control_grpc.server import Server

    assert find_control_plane() is Server


def test_a_head_loads_nothing_of_it_before_somebody_asks() -> None:
    program = (
        "import sys, kernel_processes.head.socket_activation; from kernel.plugins import PluginManager\n"
        "PluginManager.discover().choose('scheduler')\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in ('grpc', 'google', 'kernel_control_grpc')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kernel_control_grpc", "kernel_control_grpc.plugin"]
