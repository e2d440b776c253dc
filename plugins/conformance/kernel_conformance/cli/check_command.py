"""`kernel plugins check`: does an installed plugin keep its contracts?"""

from __future__ import annotations

import textwrap
import time

import click

from kernel.cli import completion
from kernel.cli.plugins_command import discover, find
from kernel.commands import Failure, Refusal
from kernel_conformance.cli import plugin_check
from kernel_spec.errors import KernelError


@click.command("check")
@click.argument("name", shell_complete=completion.plugin)
@click.option("--quiet", "-q", is_flag=True, help="Show what failed and the summary only.")
@click.option("--engine", is_flag=True, help="NAME is that of an engine, as in KERNEL_ENGINE.")
@click.option("--network", is_flag=True, help="NAME is that of a network, as in KERNEL_NETWORK.")
def check(name: str, quiet: bool, engine: bool, network: bool) -> None:
    """Try everything that the plugin NAME offers against the conformance suites.

    A plugin says what it does not promise by a mapping CONFORMANCE in its plugin module, such as
    {"scheduler": {"reclaims": False}}. The exit code is 1 when something fails.

    Example: kernel plugins check scheduler_fifo
    """
    if engine and network:
        raise Refusal(f"{name!r} is either an engine or a network: give --engine or --network, not both")
    started, passed, failed = time.perf_counter(), 0, []
    if engine or network:
        checks = _checks_by_entry_point("engine" if engine else "network", name)
    else:
        checks = _checks_of_plugin(name)
    for outcome in plugin_check.run(checks):
        line = f"{outcome.check.subject}: {outcome.check.title}"
        if outcome.problem:
            failed.append(outcome)
            click.echo(f"{click.style('FAILED', fg='red')}  {line}")
            click.echo(textwrap.indent(outcome.problem.rstrip(), " " * 8))
        else:
            passed += 1
            if not quiet:
                click.echo(f"{click.style('passed', fg='green')}  {line}")
    seconds = time.perf_counter() - started
    click.echo(f"{name}: {len(checks)} checks, {passed} passed, {len(failed)} failed, in {seconds:.1f} s")
    if failed:
        raise click.exceptions.Exit(1)


def _checks_of_plugin(name: str) -> list[plugin_check.ConformanceCheck]:
    manager = discover()
    info = find(manager, name)
    if info.problem:
        raise Failure(f"the plugin {name!r} is broken, nothing to check: {info.problem}")
    try:
        return plugin_check.checks_of(manager, info)
    except (KernelError, ImportError, ValueError) as error:
        raise Failure(f"the plugin {name!r} can't be checked: {error}") from error


def _checks_by_entry_point(kind: str, name: str) -> list[plugin_check.ConformanceCheck]:
    checks_of = plugin_check.checks_of_engine if kind == "engine" else plugin_check.checks_of_network
    try:
        return checks_of(name)
    except (KernelError, ImportError, ValueError) as error:
        raise Failure(f"the {kind} {name!r} can't be checked: {error}") from error
