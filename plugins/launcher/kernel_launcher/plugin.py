"""The hooks of this distribution. What they offer is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contracts this was written for."""
    return {"cli_command": 1}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel up`, `down`, `exec` and the other commands for a cluster that a file describes."""
    from kernel_launcher.cli.copying import rsync_down, rsync_up
    from kernel_launcher.cli.looking import cluster_dump, doctor, get_head_ip, get_worker_ips, monitor
    from kernel_launcher.cli.running import attach, exec_, submit
    from kernel_launcher.cli.starting import down, kill_random_node, up

    return [
        up, down, exec_, attach, submit, rsync_up, rsync_down, get_head_ip, get_worker_ips, monitor, kill_random_node,
        cluster_dump, doctor,
    ]  # fmt: skip
