"""`kernel exec`, `attach` and `submit`: programs on the head."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kernel.commands import Failure, Refusal
from kernel_launcher.cli.common import cluster_argument, in_words, name_option, tell, tell_remarks
from kernel_launcher.config.reading import read_plan
from kernel_launcher.files.copying import copy_up
from kernel_launcher.life.down import take_down
from kernel_launcher.life.local_state import changing, state_directory
from kernel_launcher.life.machine_link import MachineLink
from kernel_launcher.life.up import bring_up, head_link, patterns_of
from kernel_launcher.plan import ClusterPlan
from kernel_launcher.steps.step import INSIDE, OUTSIDE, Wanted

start_option = click.option("--start", is_flag=True, help="Bring the cluster up first, if it is not.")
tmux_option = click.option("--tmux", is_flag=True, help="In a tmux session there, which goes on without this command.")
screen_option = click.option("--screen", is_flag=True, help="The same in a screen.")
port_option = click.option(
    "--port-forward", "-p", type=click.IntRange(1, 65535), multiple=True, metavar="PORT",
    help="Lead this port here to the same port there; may be repeated.",
)  # fmt: skip
place_option = click.option(
    "--run-env",
    type=click.Choice(["auto", "docker", "host"]),
    default="auto",
    show_default=True,
    help="In the container, or on the machine itself (auto: in the container, if there is one).",
)


@click.command("exec")
@cluster_argument
@click.argument("command")
@name_option
@start_option
@click.option("--stop", is_flag=True, help="End the cluster when the command has ended.")
@tmux_option
@screen_option
@port_option
@place_option
@in_words
def exec_(cluster: Path, command: str, cluster_name: str, run_env: str, **how: Any) -> None:
    """Run COMMAND, for the shell, on the head of the cluster; programs in it join the cluster.

    Its exit code is that of this command.

    \b
    Examples:
      kernel exec cluster.yaml 'kernel status'
      kernel exec cluster.yaml 'jupyter lab --port 8899' -p 8899
      kernel exec cluster.yaml 'python train.py' --start --stop
    """
    plan = read_plan(cluster, cluster_name)
    _run(plan, lambda head: command, OUTSIDE if run_env == "host" else INSIDE, **how)


@click.command("submit", context_settings={"ignore_unknown_options": True})
@cluster_argument
@click.argument("script", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--args", "more", default="", metavar="WORDS", help="Arguments of the script, as one text.")
@name_option
@start_option
@click.option("--stop", is_flag=True, help="End the cluster when the script has ended.")
@tmux_option
@screen_option
@port_option
@in_words
def submit(cluster: Path, script: Path, arguments: tuple[str, ...], more: str, cluster_name: str, **how: Any) -> None:
    """Copy SCRIPT to the head, as ~/NAME, and run it there by python with ARGUMENTS.

    An option of the script that this command has, too, goes behind `--`.

    \b
    Examples:
      kernel submit cluster.yaml train.py --epochs 3
      kernel submit cluster.yaml train.py --start --stop -- --tmux
    """
    plan = read_plan(cluster, cluster_name)
    words = [*(arguments[1:] if arguments[:1] == ("--",) else arguments), *shlex.split(more)]

    def sent(head: MachineLink) -> str:
        copy_up(head, str(script), f"~/{script.name}", patterns_of(plan)())
        return " ".join(["python", f'"$HOME"/{shlex.quote(script.name)}', *map(shlex.quote, words)])

    _run(plan, sent, INSIDE, **how)


@click.command("attach")
@cluster_argument
@name_option
@start_option
@tmux_option
@screen_option
@click.option("--new", "-N", is_flag=True, help="A new session of tmux or screen, beside those that there are.")
@port_option
@place_option
@in_words
def attach(
    cluster: Path,
    cluster_name: str,
    start: bool,
    tmux: bool,
    screen: bool,
    new: bool,
    port_forward: tuple[int, ...],
    run_env: str,
) -> None:
    """Open a shell on the head; programs in it join the cluster.

    \b
    Examples:
      kernel attach cluster.yaml
      kernel attach cluster.yaml --tmux -p 8265
    """
    if tmux and screen:
        raise Refusal("--tmux and --screen exclude each other")
    plan = read_plan(cluster, cluster_name)
    if tmux:
        command = "tmux new-session" if new else "tmux attach-session || tmux new-session"
    elif screen:
        command = "screen -S kernel" if new else "screen -xRR"
    else:
        command = "exec bash -i"
    if start:
        _bring(plan)
    with contextlib.closing(head_link(plan, state_directory(plan), tell)) as head:
        place = OUTSIDE if run_env == "host" else INSIDE
        sys.exit(head.attach(command, port_forward, terminal=sys.stdin.isatty(), place=place))


def _run(
    plan: ClusterPlan,
    command_of: Callable[[MachineLink], str],
    place: str,
    start: bool,
    stop: bool,
    tmux: bool,
    screen: bool,
    port_forward: tuple[int, ...],
) -> None:
    """Run a command on the head as the options say, and exit with its exit code."""
    if tmux and screen:
        raise Refusal("--tmux and --screen exclude each other")
    detached = tmux or screen
    if detached and port_forward:
        raise Refusal("--port-forward lasts as long as the command runs here: leave out --tmux and --screen")
    if detached and stop and (not plan.head_host or plan.scales):
        raise Refusal(
            f"--stop ends machines of the provider {plan.provider}, which is done from here: leave out --tmux and "
            "--screen, or run `kernel down` later"
        )
    if start:
        _bring(plan)
    with contextlib.closing(head_link(plan, state_directory(plan), tell)) as head:
        command = command_of(head)
        if detached:
            code = _detach(head, f"{command}; kernel stop" if stop else command, tmux, place)
        else:
            terminal = sys.stdin.isatty() and sys.stdout.isatty()
            code = head.attach(command, port_forward, terminal, place)
    if stop and not detached:
        with changing(plan) as state:
            done = take_down(plan, state, tell)
        if done.failures:
            raise Failure(f"not all of {plan.name} has ended: {'; '.join(done.failures.values())}")
    sys.exit(code)


def _detach(head: MachineLink, command: str, tmux: bool, place: str) -> int:
    program = "tmux" if tmux else "screen"
    words = ["tmux", "new-session", "-d"] if tmux else ["screen", "-L", "-dmS", "kernel"]
    inner = shlex.join(["bash", "-c", command])
    begin = shlex.join([*words, inner]) if tmux else f"{shlex.join(words)} {inner}"
    finished = head.run(begin, place, program=True)
    if finished.code:
        raise head.failed(f"{program}, which must be installed there,", finished)
    click.echo(f"it runs in {program} on {head.name}; see it: kernel attach CLUSTER --{program}")
    return 0


def _bring(plan: ClusterPlan) -> None:
    """Bring a cluster up, where it is not: what runs goes on."""
    tell_remarks(plan)
    with changing(plan) as state:
        brought = bring_up(plan, state, Wanted(restart=False), tell)
    for failure in brought.failures.values():
        tell(f"a worker failed: {failure}")
