"""Print the result of `kernel start`: the node's resources, and the commands to use, join and end it."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

import click

from kernel.api.init_options import REMOTE
from kernel.cli import display
from kernel.installing import install_command
from kernel_processes.cli.client import SessionClient
from kernel_processes.cli.start_options import StartOptions
from kernel_processes.node.session_ways import ways_at
from kernel_processes.node.sessions import SessionDirectory
from kernel_processes.transport.addresses import parse_host_and_port

_ELSEWHERE = "kernel.token"


def announce(session: SessionDirectory, options: StartOptions, seconds: float, as_json: bool, block: bool) -> None:
    """Print that a node was started, which took `seconds`; warn of a head whose metadata is lost when it dies."""
    with SessionClient(session) as client:
        found = client.ask("status")
    own = next(row for row in found["nodes"] if row["NodeID"] == found["node"])
    gateway = ways_at(session.directory).gateway
    if as_json:
        display.echo_json(
            {
                "session": session.name,
                "directory": session.directory,
                "agent_pid": session.pid,
                "node_id": own["NodeID"],
                "address": gateway,
                "head": options.head or gateway,
                "metadata": found["metadata"],
                "resources": own["Resources"],
                "seconds": round(seconds, 3),
            }
        )
    elif options.head:
        _say_joined(session, options, own, gateway, seconds, block)
    else:
        _say_started(session, options, own, gateway, seconds, block)
    if not options.head and not found["metadata"]["durable"]:
        click.echo(
            f"kernel: the metadata store {found['metadata']['name']!r} is not durable: if the head dies, the cluster "
            f"ends with it; to install a durable one: {install_command('metadata_sqlite')}",
            err=True,
        )


def _say_started(
    session: SessionDirectory, options: StartOptions, own: Mapping[str, Any], gateway: str, seconds: float, block: bool
) -> None:
    click.echo(f"Started {click.style(session.name, bold=True)} in {display.duration(seconds)}")
    click.echo(
        f"  {resources_text(own['Resources'])}; the head listens at {gateway}{' in TLS' if options.tls else ''}\n"
    )
    ways = {"use it": 'kernel.init(address="auto")', "look at it": "kernel status"}
    join = f"kernel start --address={gateway}{' --tls=DIR' if options.tls else ''}"
    if is_loopback(gateway):
        ways["join it"] = f"{join}   (this machine only; --node-ip-address HOST lets others in)"
    else:
        ways["join it"] = f"{join} --token-file={_ELSEWHERE}"
        ways["with"] = f"kernel token --output {_ELSEWHERE}   (copy that file, and keep it secret)"
        if options.tls is not None:
            ways["and"] = "DIR with node.pem, node.key and ca.pem"
        secured = ', tls="DIR"' if options.tls else ""
        ways["outside"] = f'kernel.init("{REMOTE}{gateway}", token_file="{_ELSEWHERE}"{secured})'
    _show(ways | {"end it": "Ctrl-C" if block else "kernel stop"})


def _say_joined(
    session: SessionDirectory, options: StartOptions, own: Mapping[str, Any], gateway: str, seconds: float, block: bool
) -> None:
    name = click.style(own["NodeID"][:8], bold=True)
    click.echo(f"Node {name} joined the cluster at {options.head} in {display.duration(seconds)}")
    click.echo(f"  {resources_text(own['Resources'])}; it listens at {gateway}{' in TLS' if options.tls else ''}\n")
    end = "Ctrl-C" if block else f"kernel stop {session.name}"
    _show(
        {
            "use it": 'kernel.init(address="auto")',
            "look at it": "kernel status",
            "end it": f"{end}   (this node; the cluster goes on)",
        }
    )


def _show(ways: Mapping[str, str]) -> None:
    for purpose, way in ways.items():
        command, gap, remark = way.partition("   ")
        click.echo(f"  {purpose + ':':<12}{click.style(command, fg='cyan')}{gap}{remark}")


def resources_text(resources: Mapping[str, float]) -> str:
    """Describe the resources of a node in words, such as `4 CPU, 8 GiB memory, 2 GiB object store`."""
    total = dict(resources)
    parts = [f"{display.quantity(total.pop('CPU', 0))} CPU"]
    memory, store = total.pop("memory", 0), total.pop("object_store_memory", 0)
    parts += [f"{display.quantity(amount)} {name}" for name, amount in total.items() if not name.startswith("node:")]
    return ", ".join([*parts, f"{display.size(memory)} memory", f"{display.size(store)} object store"])


def is_loopback(place: str) -> bool:
    """Return whether only this machine can reach `place` ("HOST:PORT")."""
    host = parse_host_and_port(place)[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # The host is a name.
        return False
