"""`kernel simulate`: a scheduler tried on thousands of nodes that are not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kernel.cli import display
from kernel.cli.completion import offered
from kernel.commands import Refusal, unknown
from kernel_processes.cli.client import json_option
from kernel_spec.errors import OptionError

if TYPE_CHECKING:
    from kernel_simulation import Load, Report
    from kernel_spec.scheduling import Scheduler

_NODES, _TASKS = 100, 20_000
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("simulate")
@click.argument("load_file", metavar="[LOAD]", required=False, type=_FILE)
@click.option("--scenario", metavar="NAME", help="A built-in load: burst, gangs, mixed, two-jobs or churn.")
@click.option("--timeline", type=_FILE, help="Run again what `kernel timeline` recorded in FILE.")
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    metavar="NAME",
    shell_complete=offered("scheduler"),
    help="Try this one; again, to compare.",
)
@click.option("--nodes", type=click.IntRange(1), help=f"Nodes of a scenario or timeline (default: {_NODES}).")
@click.option("--cpus", type=click.FloatRange(0, min_open=True), help="CPUs of each node of a timeline (default: 8).")
@click.option("--tasks", type=click.IntRange(1), help=f"About how much work a scenario has (default: {_TASKS}).")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same run.")
@click.option("--until", type=click.FloatRange(0), metavar="SECONDS", help="Stop at this simulated second.")
@click.option("--check", is_flag=True, help="Check every answer and, now and then, the scheduler's invariants.")
@click.option("--autoscaler", type=_FILE, metavar="FILE", help="Let an autoscaler make nodes, of kinds that FILE has.")
@click.option("--save", type=_FILE, help="Write the load to FILE, as JSON to edit, and run nothing.")
@json_option
def simulate(
    load_file: Path | None,
    scenario: str | None,
    timeline: Path | None,
    schedulers: tuple[str, ...],
    nodes: int | None,
    cpus: float | None,
    tasks: int | None,
    seed: int,
    until: float | None,
    check: bool,
    autoscaler: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Run schedulers on a described or recorded load, in simulated time.

    LOAD is a file that describes nodes and work, in TOML or JSON; docs/simulate.md has the format. Nothing really
    runs: an hour of a thousand nodes takes seconds. The exit code is 1 when work is left that no scheduler placed.

    \b
    Examples:
      kernel simulate --scenario mixed
      kernel simulate --scenario two-jobs --scheduler fifo --scheduler fair
      kernel simulate --scenario burst --nodes 10000 --tasks 1000000
      kernel simulate --scenario churn --save load.json
      kernel simulate load.json --check
      kernel simulate load.json --autoscaler machines.toml
    """
    from kernel_simulation import write_load

    load = _load(load_file, scenario, timeline, nodes, cpus, tasks)
    if save is not None:
        write_load(load, save)
        click.echo(f"Wrote the load {load.name!r} to {click.style(str(save), bold=True)}")
        return
    factories = _factories(schedulers)
    reports = [_run(load, factory, seed, until, check, autoscaler) for factory in factories]
    if as_json:
        display.echo_json([report.as_data() for report in reports])
    else:
        from kernel_simulation.shown_report import show

        show(load, reports)
    if any(report.left for report in reports):
        raise click.exceptions.Exit(1)


def _load(
    load_file: Path | None,
    scenario: str | None,
    timeline: Path | None,
    nodes: int | None,
    cpus: float | None,
    tasks: int | None,
) -> Load:
    """Return the load that is asked for, whichever way."""
    from kernel_simulation import SCENARIOS, NodeKind, load_of_timeline, read_load
    from kernel_simulation import scenario as built_in

    if sum(source is not None for source in (load_file, scenario, timeline)) != 1:
        raise Refusal("give one load: a file, --scenario NAME or --timeline FILE")
    for option, value, allowed in (
        ("--nodes", nodes, load_file is None),
        ("--cpus", cpus, timeline is not None),
        ("--tasks", tasks, scenario is not None),
    ):
        if value is not None and not allowed:
            raise Refusal(f"{option} is not for this kind of load; write it into the file (--save makes one)")
    if timeline is not None:
        return load_of_timeline(timeline, [NodeKind("node", nodes or _NODES, {"CPU": cpus or 8})])
    if scenario is None:
        assert load_file is not None
        return read_load(load_file)
    if scenario not in SCENARIOS:
        raise unknown(f"scenario {scenario!r}", scenario, SCENARIOS)
    return built_in(scenario, nodes or _NODES, tasks or _TASKS)


def _factories(names: tuple[str, ...]) -> list[Callable[[], Scheduler]]:
    """Return what makes the schedulers of these names, or the one that is selected."""
    from kernel.plugins import PluginManager

    manager = PluginManager.discover()
    return [manager.choose("scheduler", name) for name in names or (None,)]


def _run(
    load: Load, factory: Callable[[], Scheduler], seed: int, until: float | None, check: bool, autoscaler: Path | None
) -> Report:
    from kernel_simulation import Simulation
    from kernel_simulation.scalers import make_scaler

    try:
        scaler = make_scaler("autoscaler", autoscaler, seed) if autoscaler is not None else None
    except OptionError as error:
        raise Refusal(str(error)) from None
    simulation = Simulation(load, factory, seed, check, scaler)
    with display.WaitingMessage(f"simulating {simulation.head.scheduler.name}") as waiting:
        return simulation.run(until, lambda now, left: waiting.show())
