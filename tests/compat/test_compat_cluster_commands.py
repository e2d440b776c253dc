"""Ray's commands for clusters are the launcher's: each leads to a command that there is."""

from __future__ import annotations

from kernel_compat_ray import command_words
from kernel_launcher.plugin import kernel_cli_commands


def test_every_cluster_command_is_one_of_the_launcher() -> None:
    assert {command.name for command in kernel_cli_commands()} >= command_words.LAUNCHER
    assert set(command_words.COMMANDS.values()) >= {"up", "down", "exec", "submit"} <= command_words.LAUNCHER
