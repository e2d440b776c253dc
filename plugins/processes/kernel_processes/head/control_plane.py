"""The control plane of a head: the interface that another distribution serves beside it, and how it is found.

A distribution offers one by an entry point in the group `kernel.control_planes` rather than by a hook, so that a head
imports nothing of it before the first request. It gets parts of the head (`ServedHead`), whose internals are not a
contract: only a distribution that is released together with the kernel can offer one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Protocol

from kernel.logs import Logger
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.observation import Observation
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import ContractError, PluginNotFoundError
from kernel_spec.hooks import CONTROL_PLANE_GROUP
from kernel_spec.tls_files import TlsFiles

EXTRA = "control_grpc"
"""The name of the kernel's extra that installs a control plane."""


class ServedHead(Protocol):
    """The parts of the head for a control plane. All but `ending` are used only in the loop of `reactor`.

    What a program may ask is in `dispatcher.methods`. `ending` is why the session ends, None if it does not.
    """

    reactor: Reactor
    log: Logger
    dispatcher: MessageDispatcher
    cluster: ClusterTable
    observation: Observation
    ending: str | None


class ServedControlPlane(Protocol):
    """Serves requests of programs to the head, in a protocol of its own, until it is closed."""

    def close(self, turn: Callable[[float], object]) -> None:
        """Let calls finish for a moment, then end; `turn(seconds)` goes on with the head's loop meanwhile."""


class OpenControlPlane(Protocol):
    """The function that an entry point names. It is called in a thread of its own, so slow imports are allowed."""

    def __call__(
        self, head: ServedHead, path: str, token: bytes, tls: TlsFiles | None, on_ready: Callable[[str], None]
    ) -> ServedControlPlane:
        """Begin to serve `head` at the UNIX socket `path`, to clients that show `token`, in TLS if `tls` is given.

        `on_ready(problem)` is called in the head's loop when it serves, or can't: then `problem` says why.
        """


ServeControlPlane = Callable[[str, Callable[[str], None]], ServedControlPlane]
"""Serves a control plane at a path; see the arguments `path` and `on_ready` of `OpenControlPlane`."""


def control_plane_of(head: ServedHead, token: bytes, tls: TlsFiles | None) -> ServeControlPlane:
    """Return the function that imports the control plane that is installed, and has it serve `head`."""
    return lambda path, on_ready: find_control_plane()(head, path, token, tls, on_ready)


def find_control_plane() -> OpenControlPlane:
    """Import the control plane that is installed. What its import raises comes through.

    Raises PluginNotFoundError, which says what to install, when there is none; ContractError when there are several.
    """
    from kernel.entry_points import entry_points

    found = entry_points(CONTROL_PLANE_GROUP)
    if not found:
        from kernel.installing import install_command

        command = install_command(EXTRA) or "this version of kernel does not come with one"
        raise PluginNotFoundError(f"no control plane is installed: {command}")
    if len(found) > 1:
        targets = ", ".join(f"{name} ({target})" for name, target in found)
        raise ContractError(f"several control planes are installed: {targets}; uninstall all but one")
    module, _, attribute = found[0][1].partition(":")
    opens: OpenControlPlane = getattr(importlib.import_module(module), attribute)
    return opens
