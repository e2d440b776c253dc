"""`kernel start`: a session that outlives the command and the programs that join it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from kernel.api.init_options import InitOptions, check_init
from kernel.cli import display
from kernel.cli.client import SessionClient
from kernel.cli.ending import end_session
from kernel.cli.refusals import Failure, Refusal
from kernel.cli.values import Label, Resources, Size
from kernel.node.launch import await_agent, start_agent
from kernel.node.sessions import Session, make_session
from kernel.transport.authentication import make_token

ONE_MACHINE = (
    "this release runs on one machine; joining the head of another comes with the cluster release "
    "(here: kernel start --head)"
)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
NO_HEAD = "say --head to start a session on this machine: kernel start --head"


@click.command("start")
@click.option("--head", is_flag=True, help="Start a session on this machine.")
@click.option("--address", metavar="HOST:PORT", help="Join the head of another machine (not in this release).")
@click.option("--num-cpus", type=click.FloatRange(min=0), metavar="N", help="CPUs (default: those of this machine).")
@click.option("--num-gpus", type=click.FloatRange(min=0), metavar="N", help="GPUs (default: those found).")
@click.option("--resources", type=Resources(), help="""Custom resources, such as '{"disk": 2}'.""")
@click.option("--memory", type=Size(), help="Memory for tasks and actors to reserve, such as 8GB.")
@click.option("--object-store-memory", type=Size(), help="Capacity of the object store, such as 500MB or 2GiB.")
@click.option("--object-store-directory", metavar="DIR", help="Where the object store lies (default: shared memory).")
@click.option("--spill-directory", metavar="DIR", help="Where objects go that don't fit (default: the session's).")
@click.option("--labels", type=Label(), multiple=True, help="A label of this node; may be repeated.")
@click.option(
    "--temp-dir", metavar="DIR", help="Where the session's directory is made (default: KERNEL_TMPDIR or /tmp)."
)
@click.option("--scheduler", metavar="NAME", help="Scheduler plugin.")
@click.option("--object-store", metavar="NAME", help="Object store plugin.")
@click.option("--serializer", metavar="NAME", multiple=True, help="Serializer plugin; may be repeated.")
@click.option("--metadata-store", metavar="NAME", help="Metadata store plugin.")
@click.option("--spill-target", metavar="NAME", help="Spill target plugin.")
@click.option("--head-service", metavar="NAME", multiple=True, help="Head service plugin to run; may be repeated.")
@click.option("--block", is_flag=True, help="Stay in the foreground; Ctrl-C or SIGTERM ends the session.")
@click.option("--json", "as_json", is_flag=True, help="Print the session as JSON.")
def start(head: bool, address: str | None, block: bool, as_json: bool, **given: Any) -> None:
    """Start a session that stays until `kernel stop` ends it.

    \b
    Examples:
      kernel start --head
      kernel start --head --num-cpus 4 --object-store-memory 2GiB
      kernel start --head --resources '{"disk": 2}' --labels zone=a
      kernel start --head --scheduler fifo --metadata-store sqlite
      kernel start --head --block
    """
    if address is not None:
        raise Refusal(f"--address {address}: {ONE_MACHINE}")
    if not head:
        raise Refusal(NO_HEAD)
    options = _options(given)
    check_init(options)
    if block:
        # From here on, so that a signal while the session starts ends it as well.
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup leaves SIGHUP ignored, and so do we
                signal.signal(number, _terminated)
    begun = time.monotonic()
    session, agent = _start(options)
    try:
        _announce(session, time.monotonic() - begun, as_json, block)
        if block:
            _stay(session, agent)
    except KeyboardInterrupt:
        if not block:
            raise
        for number in (signal.SIGINT, *_ENDING):
            signal.signal(number, signal.SIG_IGN)
        end_session(session)
        click.echo(f"Ended {session.name}.", err=as_json)


def _options(given: Mapping[str, Any]) -> InitOptions:
    return InitOptions(
        address=None,
        num_cpus=given["num_cpus"],
        num_gpus=given["num_gpus"],
        resources=given["resources"],
        memory=given["memory"],
        object_store_memory=given["object_store_memory"],
        object_store_directory=given["object_store_directory"],
        spill_directory=given["spill_directory"],
        labels=dict(given["labels"]),
        local_mode=False,
        namespace=None,
        runtime_env=None,
        log_to_driver=True,
        logging_level="warning",
        temp_dir=given["temp_dir"],
        object_id_seed=None,
        plugins={
            "scheduler": given["scheduler"],
            "object_store": given["object_store"],
            "serializer": list(given["serializer"]) or None,
            "metadata_store": given["metadata_store"],
            "spill_target": given["spill_target"],
        },
        head_services=tuple(given["head_service"]),
    )


def _start(options: InitOptions) -> tuple[Session, subprocess.Popen[bytes]]:
    token = make_token()
    directory = make_session(token, stays=True, given=options.temp_dir)
    session = Session(directory, os.getpid(), True)
    agent = None
    try:
        agent = start_agent(options.agent_config(directory, token, ephemeral=False), stays=True)
        await_agent(agent, directory)
    except BaseException:
        if agent is not None:
            agent.kill()
            agent.wait()
        shutil.rmtree(session.directory, ignore_errors=True)
        raise
    return Session(directory, agent.pid, True), agent


def _announce(session: Session, seconds: float, as_json: bool, block: bool) -> None:
    with SessionClient(session) as client:
        found = client.ask("status")
    if as_json:
        display.echo_json(
            {
                "session": session.name,
                "directory": session.directory,
                "agent_pid": session.pid,
                "resources": found["total"],
                "seconds": round(seconds, 3),
            }
        )
        return
    total = dict(found["total"])
    parts = [f"{display.quantity(total.pop('CPU', 0))} CPU"]
    memory, store = total.pop("memory", 0), total.pop("object_store_memory", 0)
    parts += [f"{display.quantity(amount)} {name}" for name, amount in total.items() if not name.startswith("node:")]
    parts += [f"{display.size(memory)} memory", f"{display.size(store)} object store"]
    click.echo(f"Started {click.style(session.name, bold=True)} in {display.duration(seconds)}")
    click.echo(f"  {', '.join(parts)}\n")
    ways = {
        "use it": 'kernel.init(address="auto")',
        "look at it": "kernel status",
        "end it": "Ctrl-C" if block else "kernel stop",
    }
    for purpose, way in ways.items():
        click.echo(f"  {purpose + ':':<12}{click.style(way, fg='cyan')}")


def _stay(session: Session, agent: subprocess.Popen[bytes]) -> None:
    """Wait until the agent ends; a signal raises KeyboardInterrupt."""
    code = agent.wait()
    if code:
        raise Failure(f"the agent of {session.name} died ({_described(code)}), and with it the session")
    click.echo(f"{session.name} was ended.", err=True)


def _described(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _terminated(number: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt
