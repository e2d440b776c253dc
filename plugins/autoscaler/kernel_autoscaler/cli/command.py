"""`kernel autoscaler`: what it has decided and why, and what it would do with another load."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import kernel
from kernel.commands import Failure, Refusal
from kernel_autoscaler.cli.shown import shown_outcome, shown_status
from kernel_autoscaler.requests import status as status_of
from kernel_spec.errors import OptionError


@click.group("autoscaler")
def autoscaler() -> None:
    """Show and try out the autoscaler of a cluster."""


@autoscaler.command("status")
@click.option("--address", metavar="ADDRESS", default="auto", show_default=True, help="The session or the cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def status(address: str, as_json: bool) -> None:
    """Show machines, what they cost, what can't be served, and the latest decisions with their reasons."""
    found = _status(address)
    click.echo(json.dumps(found, indent=2) if as_json else shown_status(found))


@autoscaler.command("explain")
@click.option("--address", metavar="ADDRESS", default="auto", show_default=True, help="The session or the cluster.")
def explain(address: str) -> None:
    """Say for all that waits why there is no machine for it."""
    unmet = _status(address)["unmet"]
    lines = [f"{what}: {why}" for what, why in unmet]
    click.echo("\n".join(lines) or "nothing waits for a machine that could not be had")


@autoscaler.command("simulate")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--seconds", type=click.FloatRange(min=1), default=3600.0, show_default=True, help="For how long.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the times that machines take to start.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def simulate(file: Path, seconds: float, seed: int, as_json: bool) -> None:
    """Run the autoscaler on a load that FILE describes, in virtual time, and say what it would cost.

    FILE is TOML: kinds of machines, settings as in the autoscaler's configuration, and the work that comes.

    \b
      [kinds.large]
      resources = {CPU = 8}
      price = 0.36
      boot_seconds = 60
      [[work]]
      at = 10
      wanted = {CPU = 1}
      seconds = 30
      count = 100
    """
    from kernel_autoscaler.cli.load import load_from
    from kernel_autoscaler.simulated.cloud import SimulatedCloud
    from kernel_autoscaler.simulated.run import SimulatedRun

    try:
        load = load_from(file)
    except OptionError as error:
        raise Refusal(str(error)) from None
    run = SimulatedRun(
        load.kinds,
        load.settings,
        lambda clock: SimulatedCloud(load.kinds, clock, random.Random(seed), load.capacity),
        load.work,
    )
    outcome = run.until(seconds)
    waiting = sum(work.count for work in run.cluster.waiting)
    unmet = [(one.what, one.why) for one in run.autoscaler.unmet]
    plain: Mapping[str, Any] = {
        "cost": outcome.cost,
        "idle_cost": outcome.idle_cost,
        "launched": outcome.launched,
        "most_machines": outcome.most_machines,
        "served": outcome.served,
        "waiting": waiting,
        "waits": sorted(outcome.waits),
        "unmet": unmet,
    }
    click.echo(json.dumps(plain) if as_json else shown_outcome(plain))


def _status(address: str) -> dict[str, Any]:
    with kernel.init(address=address, log_to_driver=False):
        found = status_of()
    if found is None:
        raise Failure("this cluster has no autoscaler: start its head with --head-service autoscaler")
    return found
