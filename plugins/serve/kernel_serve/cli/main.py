"""The group of commands."""

from __future__ import annotations

import click

from kernel.commands import CommandGroup, run_commands
from kernel_serve.cli.deploying import build, config, deploy
from kernel_serve.cli.managing import shutdown, start, status
from kernel_serve.cli.run import run
from kernel_serve.cli.simulate import simulate
from kernel_serve.cli.top import top


@click.group(name="serve", cls=CommandGroup)
def serve() -> None:
    """Deploy and look at services."""


for _command in (run, deploy, status, config, build, simulate, start, shutdown, top):
    serve.add_command(_command)


def main() -> int:
    """Run the console command `serve` and return its exit code."""
    return run_commands(serve, "serve")
