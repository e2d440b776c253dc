"""`rllib example`: settings that are known to learn, to be listed, shown, run and checked."""

from __future__ import annotations

from typing import Any

import click

from kernel.commands import CommandGroup, Failure
from kernel_rllib.cli.parameters import complete_example
from kernel_rllib.cli.train_options import train_options
from kernel_rllib.cli.training import train_experiments
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.checking import checked, judged
from kernel_rllib.experiments.tuned import tuned_experiment, tuned_file, tuned_names
from kernel_runs.progress.text import text_table


@click.group(cls=CommandGroup)
def example() -> None:
    """List, show, run and check the settings that ship, and are known to learn."""


@example.command("list")
@click.option("--filter", "-f", "pattern", default="", metavar="TEXT", help="Those with TEXT in their names; * and ?.")
def list_(pattern: str) -> None:
    """List what ships."""
    names = tuned_names(pattern)
    if not names:
        raise ConfigError(f"no example has {pattern!r} in its name; `rllib example list` shows all")
    rows = []
    for name in names:
        found = tuned_experiment(name)
        passing = found.passing
        reached = f"{passing.mean_return:g} after {passing.steps:,} steps" if passing else ""
        rows.append((name, found.run, str(found.env).rpartition(".")[2], reached))
    click.echo(text_table(("name", "algorithm", "environment", "reaches"), rows))


@example.command("get")
@click.argument("name", shell_complete=complete_example)
def get(name: str) -> None:
    """Show the file of the example NAME, which `rllib train file` takes as it is."""
    click.echo(tuned_file(name).read_text(encoding="utf-8"), nl=False)


@example.command("run")
@click.argument("name", shell_complete=complete_example)
@train_options
def run(name: str, **options: Any) -> None:
    """Train the example NAME."""
    train_experiments([tuned_experiment(name)], options)


@example.command("check")
@click.argument("names", nargs=-1, shell_complete=complete_example)
@click.option("--all", "everything", is_flag=True, help="Check all of them, which takes hours.")
@click.option("--seeds", type=click.IntRange(1), metavar="N", help="Try N seeds, not as many as the file says.")
@click.option("--first", type=int, default=0, metavar="SEED", help="The first seed.")
def check(names: tuple[str, ...], everything: bool, seeds: int | None, first: int) -> None:
    """Train the examples NAMES, and judge whether they reach what their files say.

    Training makes all the steps that the file's `pass` has; then 100 episodes are played by the best known actions.
    """
    if bool(names) == everything:
        raise ConfigError("name the examples to check, or say --all; `rllib example list` shows their names")
    failed = []
    for name in tuned_names() if everything else names:
        experiment = tuned_experiment(name)
        count = seeds or (experiment.passing.seeds if experiment.passing else 1)
        is_enough, lines = judged(experiment, [checked(experiment, seed) for seed in range(first, first + count)])
        click.echo("\n".join(lines))
        if not is_enough:
            failed.append(name)
    if failed:
        raise Failure(f"not reached: {', '.join(failed)}")
