"""Becoming a member of a group: meeting the others, and connecting to each of them."""

from __future__ import annotations

import time
from typing import Any

import kernel
from kernel_parallel.collective.mesh import Mesh, connect, listen
from kernel_parallel.collective.rendezvous import CoordinatorWatch, Meeting, meet
from kernel_spec.dataclass import dataclass

_CONNECT_SECONDS = 5.0
"""Seconds that are left at least for connecting, once all have met."""


@dataclass(frozen=True, slots=True)
class Membership:
    """What a member has when the group is formed. `shared`: what each member brought, by rank."""

    mesh: Mesh
    meeting: Meeting
    shared: list[Any]


def join(name: str, rank: int, size: int, backend: str, timeout: float, brings: Any = None) -> Membership:
    """Meet the other members and connect to them; `brings` is what all of them are to know of this one.

    Raises RankTimeoutError, which names those who are missing, after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    host = own_address()
    listener = listen(host, size)
    try:
        address = (host, listener.getsockname()[1])
        meeting = meet(name, rank, size, backend, (address, brings), timeout)
        addresses = [place for place, _ in meeting.addresses]
        until = max(deadline, time.monotonic() + _CONNECT_SECONDS)
        links = connect(name, rank, addresses, listener, meeting.secret, until)
    finally:
        listener.close()
    mesh = Mesh(name, rank, links, timeout, CoordinatorWatch(meeting, rank))
    return Membership(mesh, meeting, [brought for _, brought in meeting.addresses])


def own_address() -> str:
    """Return the address at which other nodes reach this one."""
    here = kernel.get_runtime_context().get_node_id()
    for node in kernel.nodes():
        if node["NodeID"] == here:
            return str(node["NodeManagerAddress"])
    return "127.0.0.1"
