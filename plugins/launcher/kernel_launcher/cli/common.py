"""What the commands share: the cluster file, the name, what is told while something is done."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from kernel.commands import Failure, Refusal
from kernel_launcher.config.reading import read_plan
from kernel_launcher.life.local_state import state_directory
from kernel_launcher.life.machine_link import MachineLink
from kernel_launcher.life.up import head_link
from kernel_launcher.plan import ClusterPlan
from kernel_spec.errors import KernelError, PluginNotFoundError, UsageError

name_option = click.option("--cluster-name", "-n", metavar="NAME", default="", help="Another name than the file's.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Ask nothing.")


def cluster_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument CLUSTER, its file."""
    file = click.Path(path_type=Path, dir_okay=False)
    return click.argument("cluster", type=file, metavar="CLUSTER")(function)


def in_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command tell errors of ours in one line: exit code 2 for what makes no sense, 1 for what failed."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except KernelError as error:
            wrong_use = isinstance(error, (UsageError, PluginNotFoundError))
            raise (Refusal if wrong_use else Failure)(str(error)) from error

    return inner


def tell(line: str) -> None:
    """Say on stderr what is done."""
    click.echo(line, err=True)


def tell_remarks(plan: ClusterPlan) -> None:
    """Say on stderr, once each, what the file says that has no effect here."""
    for remark in plan.remarks:
        tell(f"note: {remark}")


def confirm(question: str, yes: bool) -> None:
    """Ask, unless `yes`. Raises Refusal where there is nobody to ask."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Refusal(f"{question} There is no terminal to answer at: say --yes")
    click.confirm(question, abort=True, err=True)


@contextlib.contextmanager
def head_of(cluster: Path, name: str) -> Iterator[MachineLink]:
    """Hold the opened link to the head of the cluster that a file describes."""
    plan = read_plan(cluster, name)
    with contextlib.closing(head_link(plan, state_directory(plan), tell)) as head:
        yield head
