"""The network of TCP. The parts for a process are imported here, those for a node when a node opens the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel_network_tcp.process_network import TcpProcessNetwork
from kernel_network_tcp.transport.credentials import Credentials
from kernel_processes.transport.reactor import Reactor
from kernel_spec.tls_files import TlsFiles

if TYPE_CHECKING:
    from kernel_network_tcp.node_network import TcpNodeNetwork
    from kernel_spec.networks import NetworkSettings


class TcpNetwork:
    """Implements `kernel_spec.networks.Network`."""

    def check_tls(self, files: TlsFiles) -> None:
        """Raise OptionError, which names the file, when `files` can't be used."""
        Credentials(files)

    def open_node(self, settings: NetworkSettings, loop: Reactor, on_refused: Callable[[str], None]) -> TcpNodeNetwork:
        """Listen where the settings say, or join the relay that they name.

        Raises OptionError when the port can't be had, SessionEndedError when there is no relay.
        """
        from kernel_network_tcp.node_network import TcpNodeNetwork  # Most processes do not need it.

        return TcpNodeNetwork(settings, loop, on_refused)

    def open_process(self, token: bytes, tls: TlsFiles | None, loop: Reactor) -> TcpProcessNetwork:
        """Return one process's way to other nodes. Raises OptionError when the files of TLS can't be used."""
        return TcpProcessNetwork(token, Credentials(tls) if tls is not None else None, loop)


network = TcpNetwork()
"""The target of the entry point."""
