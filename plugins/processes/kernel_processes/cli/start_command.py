"""`kernel start`: start a cluster, or a node of one, that outlives the command and the programs that join it."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NoReturn

import click

from kernel.cli.completion import offered
from kernel.commands import Failure, Refusal
from kernel_processes.cli.announcement import announce
from kernel_processes.cli.client import tls_option
from kernel_processes.cli.drain_command import DRAINED
from kernel_processes.cli.ending import end_session
from kernel_processes.cli.start_options import PORT, start_options
from kernel_processes.cli.tokens import token_option
from kernel_processes.cli.values import Labels, LabelsFile, ResourceValues, Size
from kernel_processes.daemons.launch import await_agent, launched
from kernel_processes.node.sessions import SessionDirectory, reason_of_end

NEITHER = (
    "give --head to start a cluster on this machine (kernel start --head), or --address HOST:PORT to join one whose "
    "head is there"
)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_WANTED = ("it was asked to stop", DRAINED)
"""The beginnings of the reasons for which a node ends on request."""


@click.command("start")
@click.option("--head", is_flag=True, help="Start a cluster, with its head on this machine.")
@click.option("--address", metavar="HOST:PORT", help="Join the cluster whose head is there.")
@click.option(
    "--node-ip-address",
    metavar="HOST",
    help="Where other machines reach this node (default: with --head not at all, else where the head sees it).",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help=f"The node's TCP port, 0 for any free one (default: with --head {PORT}, or any if that is taken; else any).",
)
@click.option("--listen", metavar="HOST:PORT", help="Where the node listens, if others reach it at another place.")
@token_option
@tls_option
@click.option("--num-cpus", type=click.FloatRange(min=0), metavar="N", help="CPUs (default: those of this machine).")
@click.option("--num-gpus", type=click.FloatRange(min=0), metavar="N", help="GPUs (default: those found).")
@click.option("--resources", type=ResourceValues(), help="""Custom resources, such as '{"disk": 2}'.""")
@click.option("--memory", type=Size(), help="Memory that tasks and actors can reserve, such as 8GB.")
@click.option("--memory-limit", type=Size(), help="Most memory of workers and store together (default: no limit).")
@click.option("--memory-threshold", type=float, metavar="X", help="Share of memory in use at which a worker is ended.")
@click.option("--memory-quotas", metavar="WHO", help="Whose memory= is enforced: actors (default), all or none.")
@click.option("--object-store-memory", type=Size(), help="Capacity of the object store, such as 500MB or 2GiB.")
@click.option("--object-store-directory", metavar="DIR", help="Where the object store lies (default: shared memory).")
@click.option("--spill-directory", metavar="DIR", help="Where spilled objects are kept (default: with the session).")
@click.option("--spill-target", metavar="NAME", shell_complete=offered("spill_target"), help="Spill target plugin.")
@click.option("--labels", type=Labels(), multiple=True, help="Labels of this node; may be repeated.")
@click.option(
    "--provider-id",
    metavar="ID",
    envvar="KERNEL_PROVIDER_ID",
    help="The id that a node provider has for this machine (default: KERNEL_PROVIDER_ID).",
)
@click.option("--labels-file", type=LabelsFile(), help="File with labels: JSON, or a line NAME: VALUE for each.")
@click.option(
    "--temp-dir", metavar="DIR", help="Where the session's directory is made (default: KERNEL_TMPDIR or /tmp)."
)
@click.option("--scheduler", metavar="NAME", shell_complete=offered("scheduler"), help="Scheduler plugin (of a head).")
@click.option(
    "--object-store",
    metavar="NAME",
    shell_complete=offered("object_store"),
    help="Object store plugin (of a head, for all nodes).",
)
@click.option(
    "--serializer",
    metavar="NAME",
    shell_complete=offered("serializer"),
    multiple=True,
    help="Serializer plugin (of a head, for all nodes); may be repeated.",
)
@click.option(
    "--metadata-store",
    metavar="NAME",
    shell_complete=offered("metadata_store"),
    help="Metadata store plugin (of a head; default: sqlite, if it is installed).",
)
@click.option(
    "--metadata-path",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where a head keeps its metadata. A head started elsewhere with the same DIR takes over if this machine dies.",
)
@click.option(
    "--node-death-seconds",
    type=click.FloatRange(min=1),
    metavar="S",
    help="Seconds without a message from a node after which the head declares it dead (default: 5).",
)
@click.option(
    "--head-away-seconds",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Seconds for which nodes try to reach a lost head (default: KERNEL_HEAD_AWAY_SECONDS, else 60).",
)
@click.option(
    "--head-service",
    metavar="NAME",
    shell_complete=offered("head_service"),
    multiple=True,
    help="Head service plugin to run; may be repeated.",
)
@click.option("--preload", metavar="MODULE", multiple=True, help="Module to import in every worker; may be repeated.")
@click.option("--block", is_flag=True, help="Stay in the foreground; Ctrl-C or SIGTERM ends the node.")
@click.option("--json", "as_json", is_flag=True, help="Print the session as JSON.")
def start(head: bool, address: str | None, block: bool, as_json: bool, **given: Any) -> None:
    """Start a cluster (--head), or a node of one (--address). It runs until `kernel stop` ends it.

    Only programs and nodes on this machine can reach a head, unless --node-ip-address says where others reach it. A
    node is reached at the address from which it connects to the head. Each uses one TCP port.

    \b
    Examples:
      kernel start --head
      kernel start --head --num-cpus 4 --object-store-memory 2GiB
      kernel start --head --node-ip-address 10.0.0.1 --tls tls
      kernel start --head --metadata-path /var/lib/kernel --block
      kernel start --address 127.0.0.1:6380 --resources '{"disk": 2}'
      kernel start --address 10.0.0.1:6380 --token-file kernel.token --tls tls
    """
    if not head and address is None:
        raise Refusal(NEITHER)
    options = start_options(head, address, given)
    if block:
        # Installed before the session starts, so that a signal during the start ends it as well.
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup leaves SIGHUP ignored, and so do we
                signal.signal(number, _terminated)
    begun = time.monotonic()
    with launched(options.agent_config, True, options.node.temp_dir, options.token) as (session, agent):
        await_agent(agent, session.directory)
    try:
        announce(session, options, time.monotonic() - begun, as_json, block)
        if block:
            _stay(session, agent)
    except KeyboardInterrupt:
        if not block:
            raise
        for number in (signal.SIGINT, *_ENDING):
            signal.signal(number, signal.SIG_IGN)
        end_session(session)
        click.echo(f"Ended {session.name}.", err=as_json)


def _stay(session: SessionDirectory, agent: subprocess.Popen[bytes]) -> None:
    """Wait until the agent ends; a signal raises KeyboardInterrupt."""
    code = agent.wait()
    if code:
        raise Failure(f"the agent of {session.name} died ({_described(code)}), and with it the session")
    reason = reason_of_end(session.directory)
    if reason and not reason.startswith(_WANTED):
        raise Failure(f"{session.name} has ended: {reason}")
    click.echo(f"{session.name} was ended.", err=True)


def _described(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _terminated(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
