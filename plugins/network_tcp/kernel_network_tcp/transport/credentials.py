"""Hold the certificate that this node shows, and those that it accepts, when its TCP ports speak TLS.

Both sides show a certificate of the cluster's own authority. Names in certificates are not compared: a peer with a
certificate of that authority belongs to the cluster, as a peer with the token does.
"""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

from kernel_spec.errors import OptionError
from kernel_spec.tls_files import TlsFiles

if TYPE_CHECKING:
    import ssl


class Credentials:
    """Makes TLS sockets of plain ones. Replaced files take effect with the next connection, without a restart."""

    def __init__(self, files: TlsFiles) -> None:
        """Read `files`. Raises OptionError, which names the file, when they can't be used."""
        self.files = files
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._read = self._state()
        self._load()

    def wrap(self, sock: socket.socket, server: bool) -> socket.socket:
        """Return the TLS side of a connected socket, which it replaces; the TLS handshake has not begun.

        Raises OSError when the connection is broken, or when the files were replaced by some that can't be used.
        """
        state = self._state()
        if state != self._read:
            try:
                self._load()
            except OptionError as error:
                raise OSError(0, str(error)) from error
            self._read = state
        return self._contexts[server].wrap_socket(sock, server_side=server, do_handshake_on_connect=False)

    def _load(self) -> None:
        from kernel_network_tcp.transport.tls_socket import make_context

        for path in self.files.paths():
            if not os.access(path, os.R_OK):
                folder = os.path.dirname(path) or os.curdir
                raise OptionError(
                    f"the TLS file {path} can't be read; `kernel certificates create {folder}` makes a certificate, "
                    "a key and an authority, which all nodes may share"
                )
        if os.stat(self.files.key).st_mode & (stat.S_IROTH | stat.S_IWOTH):
            raise OptionError(f"the key {self.files.key} can be read by everybody; run: chmod 600 {self.files.key}")
        self._contexts = {server: make_context(*self.files.paths(), server) for server in (False, True)}

    def _state(self) -> list[tuple[int, int]]:
        """Return what changes when a file is replaced; where one is missing, nothing changes."""
        try:
            return [(status.st_mtime_ns, status.st_ino) for status in map(os.stat, self.files.paths())]
        except OSError:
            return getattr(self, "_read", [])
