"""`kernel get-head-ip`, `get-worker-ips`, `monitor`, `cluster-dump` and `doctor`."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import click

from kernel.commands import Failure
from kernel_launcher.cli.common import cluster_argument, head_of, in_words, name_option, tell
from kernel_launcher.config.reading import read_plan
from kernel_launcher.life.checkup import check_up
from kernel_launcher.life.dump import dump_logs
from kernel_launcher.life.local_state import state_directory
from kernel_launcher.life.providers import make_provider, provider_for
from kernel_launcher.life.up import head_link, known_workers
from kernel_launcher.plan import WORKER
from kernel_launcher.ssh.connection import host_and_port


@click.command("get-head-ip")
@cluster_argument
@name_option
@in_words
def get_head_ip(cluster: Path, cluster_name: str) -> None:
    """Print where the head's machine is.

    \b
    Example:
      kernel get-head-ip cluster.yaml
    """
    plan = read_plan(cluster, cluster_name)
    if plan.head_host:
        click.echo(host_and_port(plan.head_host, plan.ssh.port)[0])
        return
    with head_of(cluster, cluster_name) as head:
        click.echo(head.connection.host)


@click.command("get-worker-ips")
@cluster_argument
@name_option
@in_words
def get_worker_ips(cluster: Path, cluster_name: str) -> None:
    """Print where the workers' machines are, one a line.

    \b
    Example:
      kernel get-worker-ips cluster.yaml
    """
    plan = read_plan(cluster, cluster_name)
    if plan.head_host and not plan.scales:
        with head_of(cluster, cluster_name) as head:
            found = [host_and_port(entry, plan.ssh.port)[0] for entry in known_workers(head)]
    else:
        provider = provider_for(plan, WORKER, state_directory(plan), make_provider)
        found = [one.address for one in provider.list() if one.state == "running"]
    for address in found:
        click.echo(address)


@click.command("monitor")
@cluster_argument
@name_option
@click.option("--seconds", type=click.FloatRange(min=0.1), default=5.0, show_default=True, help="How often.")
@click.option("--times", type=click.IntRange(1), metavar="N", help="Show it N times, instead of until Ctrl-C.")
@in_words
def monitor(cluster: Path, cluster_name: str, seconds: float, times: int | None) -> None:
    """Show what the cluster has, does and waits for, and what its autoscaler does, again and again.

    \b
    Example:
      kernel monitor cluster.yaml
    """
    plan = read_plan(cluster, cluster_name)
    command = "kernel status" + ("; kernel autoscaler status" if plan.scales else "")
    shown = 0
    with contextlib.closing(head_link(plan, state_directory(plan), tell)) as head:
        while True:
            finished = head.run(command, program=True)
            if finished.code:
                raise head.failed("kernel status", finished)
            click.echo(finished.output.rstrip())
            shown += 1
            if shown == times:
                return
            sys.stdout.flush()
            time.sleep(seconds)


@click.command("cluster-dump")
@cluster_argument
@name_option
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("cluster-dump"),
    show_default=True,
    help="A new directory.",
)
@in_words
def cluster_dump(cluster: Path, cluster_name: str, output: Path) -> None:
    """Collect the logs of all machines of the cluster, for somebody who is to look at them.

    \b
    Example:
      kernel cluster-dump cluster.yaml -o logs
    """
    plan = read_plan(cluster, cluster_name)
    found, failures = dump_logs(plan, state_directory(plan), output, tell)
    click.echo(f"{found} files in {output}")
    if failures:
        raise Failure(f"not all machines gave their logs: {'; '.join(failures)}")


@click.command("doctor")
@cluster_argument
@name_option
@in_words
def doctor(cluster: Path, cluster_name: str) -> None:
    """Check, before anything is done, that the machines of the cluster can be what they are to be.

    \b
    Example:
      kernel doctor cluster.yaml
    """
    plan = read_plan(cluster, cluster_name)
    problems = 0
    for finding in check_up(plan, state_directory(plan), time.time):
        problems += not finding.good
        click.echo(f"{'ok  ' if finding.good else 'BAD '} {finding.machine:<22} {finding.what}")
    if problems:
        raise Failure(f"{problems} of these must be mended first")
