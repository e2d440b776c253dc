"""`kernel up`, `down` and `kill-random-node`."""

from __future__ import annotations

import random
import time
from pathlib import Path

import click

from kernel.commands import Failure, Refusal
from kernel_launcher.cli.common import cluster_argument, confirm, in_words, name_option, tell, tell_remarks, yes_option
from kernel_launcher.cli.plan_shown import shown_plan
from kernel_launcher.config.reading import read_plan
from kernel_launcher.life.down import take_down
from kernel_launcher.life.failing import end_one
from kernel_launcher.life.local_state import changing, state_directory
from kernel_launcher.life.prices import prices_of
from kernel_launcher.life.up import bring_up, file_digests
from kernel_launcher.steps.step import Wanted


@click.command("up")
@cluster_argument
@name_option
@yes_option
@click.option(
    "--max-workers", type=click.IntRange(0), metavar="N", help="At most so many workers, whatever the file says."
)
@click.option("--min-workers", type=click.IntRange(0), metavar="N", help="At least so many workers.")
@click.option("--no-restart", is_flag=True, help="Let nodes that run go on; set up what has changed.")
@click.option("--restart-only", is_flag=True, help="Restart nodes, and set nothing up.")
@click.option("--plan", "only_plan", is_flag=True, help="Print what would be done and what it costs, and do nothing.")
@in_words
def up(
    cluster: Path,
    cluster_name: str,
    yes: bool,
    max_workers: int | None,
    min_workers: int | None,
    no_restart: bool,
    restart_only: bool,
    only_plan: bool,
) -> None:
    """Bring up the cluster that the file CLUSTER describes, or update it.

    CLUSTER is kernel's TOML or YAML, or a YAML file for Ray's launcher. What was done before, with the same input, is
    not done again: after a failure or a cut the same command goes on. Nodes are restarted unless --no-restart is said.

    \b
    Examples:
      kernel up cluster.yaml --plan
      kernel up cluster.yaml
      kernel up cluster.yaml --max-workers 10 --no-restart
      kernel up cluster.yaml -n second
    """
    if no_restart and restart_only:
        raise Refusal("--no-restart and --restart-only exclude each other")
    plan = read_plan(cluster, cluster_name, max_workers, min_workers)
    if only_plan:
        click.echo(shown_plan(plan, file_digests(plan), prices_of(plan, state_directory(plan))))
        return
    tell_remarks(plan)
    begun = time.monotonic()
    with changing(plan) as state:
        brought = bring_up(plan, state, Wanted(restart=not no_restart, setup=not restart_only), tell)
    workers, seconds = len(brought.workers), time.monotonic() - begun
    click.echo(
        f"{plan.name}: the head is at {brought.address}, {workers} worker{'s' * (workers != 1)}"
        f"{' and those that the autoscaler makes' * plan.scales}; {brought.steps} steps in {seconds:.1f} s"
    )
    click.echo(f"  kernel attach {cluster}{f' -n {cluster_name}' if cluster_name else ''}")
    click.echo(f"  {brought.login}")
    if brought.failures:
        raise Failure(f"{len(brought.failures)} of the workers failed: {'; '.join(brought.failures.values())}")


@click.command("down")
@cluster_argument
@name_option
@yes_option
@click.option("--workers-only", is_flag=True, help="End the workers, and let the head go on.")
@in_words
def down(cluster: Path, cluster_name: str, yes: bool, workers_only: bool) -> None:
    """End the cluster that the file CLUSTER describes.

    Machines that a provider has made are given back, and its list is asked until none is left. Machines that were there
    stay on: only the cluster's nodes end there.

    \b
    Examples:
      kernel down cluster.yaml
      kernel down cluster.yaml -y -n second
    """
    plan = read_plan(cluster, cluster_name)
    confirm(f"End {'the workers of ' * workers_only}the cluster {plan.name}?", yes)
    with changing(plan) as state:
        done = take_down(plan, state, tell, workers_only)
    if done.failures:
        raise Failure(f"not all of {plan.name} has ended: {'; '.join(done.failures.values())}")
    words = f", {done.given_back} machines given back" if done.given_back else ""
    click.echo(f"{plan.name}: nodes on {len(done.ended)} machines ended{words}")


@click.command("kill-random-node")
@cluster_argument
@name_option
@yes_option
@click.option("--hard", is_flag=True, help="Give the machine back, where a provider has made it.")
@in_words
def kill_random_node(cluster: Path, cluster_name: str, yes: bool, hard: bool) -> None:
    """Kill the node of one worker, by chance, to see what a program does then. Its machine stays on.

    \b
    Example:
      kernel kill-random-node cluster.yaml
    """
    plan = read_plan(cluster, cluster_name)
    confirm(f"Kill a worker of the cluster {plan.name}?", yes)
    with changing(plan) as state:
        killed = end_one(plan, state, random.Random(), hard, tell)
    click.echo(killed)
