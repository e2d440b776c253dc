"""Open a link to a replica: by a socket on its own machine, by a tunnel to another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_serve.values import Replica
from kernel_serve.wire import tunnel, unix
from kernel_serve.wire.link import RequestLink


async def open_link(
    replica: Replica,
    node: str,
    on_notice: Callable[[Any], None],
    on_load: Callable[[int], None],
    on_lost: Callable[[str], None],
) -> RequestLink:
    """Return a link from node `node` to a replica. Raises OSError or KernelError when the replica can't be reached."""
    if replica.node == node:
        return (await unix.connect(replica.socket, on_notice, on_load, on_lost)).link
    return await tunnel.connect(replica.actor, on_notice, on_load, on_lost)
