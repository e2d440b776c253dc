"""`kernel microbenchmark`: the main rates of this machine, in a table."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import TYPE_CHECKING

import click

from kernel.cli import display
from kernel_processes.cli.client import find_session, json_option

if TYPE_CHECKING:
    from kernel_processes.cli.microbenchmark import Measurement

_SECONDS = 1.5
_QUICK_SECONDS = 0.2
_NAME_WIDTH = 44


@click.command("microbenchmark")
@click.option("--quick", is_flag=True, help="Measure for three seconds instead of twenty.")
@click.option(
    "--address", metavar="SESSION", help="Measure in this session, its name or HOST:PORT (default: one of its own)."
)
@json_option
def microbenchmark(quick: bool, address: str | None, as_json: bool) -> None:
    """Measure how many tasks, actor calls and objects per second this machine processes.

    The rates mean little on a machine that is busy with something else.

    \b
    Examples:
      kernel microbenchmark
      kernel microbenchmark --quick
      kernel microbenchmark --json
    """
    import kernel

    directory = None
    if address is not None:
        directory = find_session(address, f"start one with: kernel start --address {address}").directory
    os.environ.pop("KERNEL_ADDRESS", None)  # Without --address the command measures a session of its own.
    results = []
    if not as_json:
        _show_head()
    begun = time.perf_counter()
    with kernel.init(directory, log_to_driver=False):
        from kernel_processes.cli.microbenchmark import measure

        for row in measure(_QUICK_SECONDS if quick else _SECONDS, begun, _show_progress):
            results.append(row)
            _show(row, as_json)
    if as_json:
        display.echo_json([row._asdict() for row in results])


def _show_head() -> None:
    machine = f"Python {platform.python_version()}, {display.count(os.cpu_count() or 1, 'CPU')}, {platform.machine()}"
    click.echo(display.heading(f"{'MEASUREMENT':<{_NAME_WIDTH}}{'RESULT':>12}") + display.dim(f"      {machine}"))


def _show_progress(name: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{name + ' ...':<{_NAME_WIDTH}}", nl=False, err=True)


def _show(row: Measurement, as_json: bool) -> None:
    if sys.stderr.isatty():
        click.echo("\r" + " " * _NAME_WIDTH + "\r", nl=False, err=True)
    if not as_json:
        digits = 0 if row.rate >= 100 else 2
        click.echo(f"{row.name:<{_NAME_WIDTH}}{row.rate:>12,.{digits}f} {row.unit}")
