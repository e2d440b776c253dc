"""Where an API server is, and how its clients prove who they are."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the account that it runs as."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """What is needed to call an API server.

    `server` is its URL, `namespace` the one that requests are about, `tls` None for plain HTTP. `authorization` returns
    the value of that header, "" for none; it is asked for each request, as tokens expire. `server_name` is what the
    certificate is to name, "" for the host of the URL.
    """

    server: str
    namespace: str
    tls: ssl.SSLContext | None
    authorization: Callable[[], str]
    server_name: str = ""


def check_server(server: str, has_secret: bool, where: str) -> None:
    """Raise NodeProviderError for a URL that is none, or over which a secret would travel in the clear."""
    url = urlsplit(server)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise NodeProviderError(
            f"{where} names the server {server!r}, which is no URL such as https://10.0.0.1:6443", code=INVALID
        )
    if url.scheme == "http" and has_secret and url.hostname not in _LOOPBACK:
        raise NodeProviderError(
            f"{where} would send credentials to {server} in the clear: use https, or `kubectl proxy` on this machine",
            code=CREDENTIALS,
        )


def is_in_cluster(directory: Path = SERVICE_ACCOUNT) -> bool:
    """Return whether this process runs in a pod that has a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster_access(namespace: str = "", directory: Path = SERVICE_ACCOUNT) -> ServerAccess:
    """Return the access of the pod that this process runs in. Raises NodeProviderError outside of any.

    The token is read for each request: Kubernetes replaces the file now and then.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    file = directory / "token"
    if not host or not file.exists():
        raise NodeProviderError(
            f"this process runs in no pod with a service account: KUBERNETES_SERVICE_HOST or {file} is not there. "
            "Name a kubeconfig, or set automountServiceAccountToken in the pod",
            code=CREDENTIALS,
        )
    if not namespace:
        namespace = (directory / "namespace").read_text().strip()
    tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    shown = f"[{host}]" if ":" in host else host
    return ServerAccess(f"https://{shown}:{port}", namespace, tls, lambda: f"Bearer {file.read_text().strip()}")
