"""The group of commands."""

from __future__ import annotations

import os
import sys

import click

from kernel.commands import CommandGroup, run_commands
from kernel_rllib.cli.evaluate import evaluate, rollout
from kernel_rllib.cli.examples import example
from kernel_rllib.cli.listing import algorithms, envs, explain
from kernel_rllib.cli.plot import plot
from kernel_rllib.cli.train import train


@click.group(name="rllib", cls=CommandGroup)
def rllib() -> None:
    """Train policies in environments, and evaluate them.

    \b
    Examples:
      rllib train --run PPO --env CartPole-v1
      rllib train file experiments.yaml
      rllib evaluate ~/kernel_results/default/PPO_.../checkpoint_000010
      rllib plot ~/kernel_results/default -o curves.html
    """
    # As `python program.py` in it would: environments of one's own are named by their modules, such as `maze.Maze`.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


for _command in (train, evaluate, rollout, example, algorithms, envs, explain, plot):
    rllib.add_command(_command)


def main() -> int:
    """Run the console command `rllib` and return its exit code."""
    return run_commands(rllib, "rllib")


if __name__ == "__main__":
    sys.exit(main())
