"""The paths of the files for TLS, as values; a network or a control plane reads the files.

Both sides of a connection show a certificate of the cluster's own authority. `kernel certificates create DIR` writes
all three files into a directory.
"""

from __future__ import annotations

import os

from kernel_spec.dataclass import dataclass

CERTIFICATE = "node.pem"
KEY = "node.key"
AUTHORITY = "ca.pem"
NODE_NAME = "node.kernel.internal"
"""A name that every certificate of a cluster has, for clients that insist on comparing one."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of the node's certificate, its key, and the authority's certificate, in PEM format."""

    certificate: str
    key: str
    authority: str

    @classmethod
    def of_directory(cls, directory: str) -> TlsFiles:
        """Return the files that `kernel certificates create` wrote into `directory`."""
        return cls(*(os.path.join(os.path.abspath(directory), name) for name in (CERTIFICATE, KEY, AUTHORITY)))

    def paths(self) -> tuple[str, str, str]:
        """Return all three paths."""
        return self.certificate, self.key, self.authority
