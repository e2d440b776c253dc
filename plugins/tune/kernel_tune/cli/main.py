"""The commands of `kernel tune`."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from kernel.commands import CommandGroup, run_commands
from kernel_runs.storage.places import results_directory
from kernel_tune.cli import rows as of
from kernel_tune.cli import tables
from kernel_tune.errors import TuneError


@click.group(cls=CommandGroup)
def tune() -> None:
    """Look at hyperparameter searches: their experiments, trials and results.

    \b
    Examples:
      kernel tune ls ~/kernel_results
      kernel tune list-trials ~/kernel_results/mine --sort loss --filter "training_iteration > 5"
      kernel tune plot ~/kernel_results/mine mine.html
    """


def _shows_tables(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print rows as JSON."),
        click.option("--output", metavar="FILE", help="Write the table to FILE too: .csv or .pkl."),
        click.option("--desc", is_flag=True, help="Sort the largest first."),
        click.option("--filter", "condition", metavar="TEXT", help="Show where '<column> <operator> <value>'."),
        click.option("--sort", metavar="COLUMNS", help="Sort by these columns, with commas between them."),
    ):
        function = option(function)
    return function


def _show(
    found: Sequence[tables.Row], columns: Sequence[str], sort: str | None, condition: str | None, desc: bool,
    output: str | None, as_json: bool,
) -> None:  # fmt: skip
    found = tables.filtered(found, condition)
    if sort:
        found = tables.sorted_rows(found, [name.strip() for name in sort.split(",")], desc)
    chosen = tables.columns_of(found, columns)
    if as_json:
        click.echo(json.dumps([{name: row.get(name) for name in chosen} for row in found], indent=2, default=str))
    else:
        text, dropped = tables.shown(found, chosen, shutil.get_terminal_size((120, 40)).columns)
        click.echo(text)
        if dropped:
            click.echo(f"Dropped columns: {dropped}")
            click.echo("Please increase your terminal size to view remaining columns.")
    if output:
        tables.write(found, chosen, output)
        click.echo(f"Output saved at: {output}", err=as_json)


@tune.command("list-trials")
@click.argument("experiment_path")
@_shows_tables
@click.option("--columns", metavar="NAMES", help="Show these columns, with commas between them.")
@click.option("--result-columns", metavar="NAMES", help="Show these columns of the last result as well.")
def list_trials(experiment_path: str, columns: str | None, result_columns: str | None, **shown: Any) -> None:
    """List the trials of an experiment: its directory is EXPERIMENT_PATH. Empty columns are left out."""
    found = of.trial_rows(experiment_path)
    wanted = [name.strip() for text in (columns, result_columns) if text for name in text.split(",")]
    if result_columns and not columns:
        wanted = [*of.TRIAL_COLUMNS, *wanted]
    tables.known(found, wanted)
    _show(found, wanted, **shown)


@tune.command("list-experiments")
@click.argument("project_path")
@_shows_tables
@click.option("--columns", metavar="NAMES", help="Show these columns, with commas between them.")
def list_experiments(project_path: str, columns: str | None, **shown: Any) -> None:
    """List the experiments in the directory PROJECT_PATH."""
    found = of.experiment_rows(project_path)
    wanted = [name.strip() for name in columns.split(",")] if columns else []
    tables.known(found, wanted)
    _show(found, wanted, **shown)


@tune.command("ls")
@click.argument("path", default=results_directory)
@_shows_tables
def ls(path: str, **shown: Any) -> None:
    """List what is in PATH: the trials of an experiment, or experiments."""
    is_experiment = os.path.exists(os.path.join(os.path.expanduser(path), "experiment_state.json"))
    _show(of.trial_rows(path) if is_experiment else of.experiment_rows(path), [], **shown)


@tune.command("add-note")
@click.argument("path")
@click.option("--filename", default=of.NOTE_FILE, help="The file of the note in the directory.")
@click.option("--text", metavar="TEXT", help="The note; without it an editor is opened.")
def add_note(path: str, filename: str, text: str | None) -> None:
    """Write a note to the experiment or trial whose directory is PATH."""
    folder = os.path.expanduser(path)
    if not os.path.isdir(folder):
        raise TuneError(f"there is no directory {path}")
    target = os.path.join(folder, filename)
    if text is None:
        click.edit(filename=target)
    else:
        with open(target, "a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")
    click.echo(f"Note in {target}")


@tune.command("plot")
@click.argument("experiment_path")
@click.argument("output")
@click.option("--metric", metavar="NAME", help="By what trials are compared (default: the experiment's).")
@click.option("--mode", type=click.Choice(["min", "max"]), help="Whether less or more of it is better.")
def plot(experiment_path: str, output: str, metric: str | None, mode: str | None) -> None:
    """Draw an experiment: learning curves, parameters, importance, as one HTML page in OUTPUT."""
    from kernel_tune.analysis import ResultGrid, write_html  # here: plots take a while to import

    write_html(ResultGrid(os.path.expanduser(experiment_path), metric, mode), output)
    click.echo(f"Page in {output}")


def main() -> int:
    """Run the console command `tune` and return its exit code."""
    return run_commands(tune, "tune")


if __name__ == "__main__":
    sys.exit(main())
