"""Run Ray's command line by kernel's: `kernel ray-cli`."""

from __future__ import annotations

import os
import sys

import click

from kernel_compat_ray.command_line import translate_command
from kernel_compat_ray.command_words import COMMANDS
from kernel_compat_ray.environment import adopt_environment
from kernel_compat_ray.run import environment_of


def _help_of_commands() -> str:
    return ", ".join(sorted(name for name, target in COMMANDS.items() if not target.startswith("-")))


@click.command(
    "ray-cli",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Ray's command line.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]...")
def ray_cli(arguments: tuple[str, ...]) -> None:
    """Understand the commands and options of `ray`, and do what they mean with kernel.

    \b
    Examples:
      kernel ray-cli start --head --num-cpus=4
      kernel ray-cli status
      kernel ray-cli stop --force
      alias ray='kernel ray-cli'
    """
    if not arguments:
        raise click.UsageError(f"say a command: {_help_of_commands()}")
    found = translate_command(arguments[0], arguments[1:])
    for remark in found.remarks:
        click.echo(f"kernel: {remark}", err=True)
    environment = environment_of(os.environ, wait_milliseconds=False)  # Workers of a node must be able to import ray.
    adopt_environment(environment)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "kernel.cli.main", *found.arguments], environment)
