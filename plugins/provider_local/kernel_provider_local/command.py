"""`kernel coordinator`: serve one list of hosts to the clusters of several users."""

from __future__ import annotations

import os
import secrets
import signal
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import click

from kernel_provider_local.coordinator_client import LOOPBACK
from kernel_provider_local.coordinator_server import CoordinatorServer
from kernel_provider_local.leases import LeaseFile
from kernel_provider_local.settings import read_kinds
from kernel_spec.errors import NodeProviderError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]


@click.command()
@click.argument("hosts_file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--listen", default="127.0.0.1:6381", show_default=True, metavar="HOST:PORT", help="Where it listens.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="coordinator.token",
    show_default=True,
    help="A file with its token, which is made if it is not there.",
)
@click.option(
    "--leases-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="coordinator.leases",
    show_default=True,
    help="Where leases are kept, over restarts.",
)
@click.option("--certificate", type=click.Path(dir_okay=False), help="A certificate (PEM), for TLS.")
@click.option("--private-key", type=click.Path(dir_okay=False), help="The private key of the certificate.")
def coordinator(
    hosts_file: Path,
    listen: str,
    token_file: Path,
    leases_file: Path,
    certificate: str | None,
    private_key: str | None,
) -> None:
    """Share the hosts of HOSTS_FILE between the clusters of several users.

    Each host is leased to one cluster at a time. The clusters reach the hosts by themselves, with their users' keys,
    and use the node provider `coordinator`. Any address but this machine's own needs TLS.

    \b
    Examples:
      kernel coordinator hosts.toml
      kernel coordinator hosts.toml --listen 10.0.0.1:6381 --certificate server.crt --private-key server.key
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal():
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    if host not in LOOPBACK and certificate is None:
        text = f"{host} is reached from other machines: that needs --certificate and --private-key, or an SSH forward"
        raise click.BadParameter(text, param_hint="--listen")
    try:
        table = LeaseFile(leases_file.absolute(), read_kinds(_read(hosts_file).get("kinds")))
        token = _token(token_file)
        server = CoordinatorServer((host.strip("[]"), int(port)), table, token, _context(certificate, private_key))
    except (OSError, ValueError, NodeProviderError) as error:
        raise click.ClickException(f"the coordinator can't be started: {error}") from None
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    click.echo(f"The coordinator listens at {host}:{server.server_address[1]}; its token is in {token_file}.")
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _read(file: Path) -> dict[str, Any]:
    try:
        said: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{file} can't be read: {error}") from None
    return said


def _token(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = file.read_text(encoding="utf-8").strip()
        if len(token) < 16:
            raise ValueError(f"{file} has no token of 16 characters or more; remove it, and one is made") from None
        return token
    with open(descriptor, "w", encoding="utf-8") as opened:
        token = secrets.token_hex(32)
        opened.write(f"{token}\n")
    return token


def _context(certificate: str | None, private_key: str | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, private_key)
    return context
