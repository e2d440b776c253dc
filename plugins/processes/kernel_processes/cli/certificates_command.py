"""`kernel certificates`: create an authority and its certificates, renew them, and show how long they are valid."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from kernel.cli import display
from kernel.commands import CommandGroup, Failure, Refusal
from kernel_processes.cli.certificates import NODE_DAYS, CertificateInfo, create, describe, renew
from kernel_processes.cli.client import json_option
from kernel_spec.tls_files import AUTHORITY, CERTIFICATE, KEY

_directory = click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
_names = click.option(
    "--name", "names", multiple=True, metavar="NAME", help="Another name or address of the machines; may be repeated."
)
_days = click.option(
    "--days", type=click.IntRange(1, 3650), default=NODE_DAYS, show_default=True, help="Days for which it is valid."
)


@click.group("certificates", cls=CommandGroup)
def certificates() -> None:
    """Make and show the certificates with which the nodes of a cluster know each other.

    \b
    Examples:
      kernel certificates create tls
      kernel certificates show tls
      kernel certificates renew tls
    """


@certificates.command("create")
@_directory
@_names
@_days
def create_command(directory: Path, names: tuple[str, ...], days: int) -> None:
    """Write an authority, a certificate and a key into DIRECTORY.

    Copy node.pem, node.key and ca.pem to every node. Keep ca.key to yourself: whoever has it can make certificates.

    \b
    Examples:
      kernel certificates create tls
      kernel certificates create tls --name head.example --name 10.0.0.1
    """
    create(directory, names, days)
    click.echo(f"wrote {AUTHORITY}, {CERTIFICATE} and {KEY}, which every node needs, into {directory}")
    click.echo("keep ca.key to yourself: whoever has it can make certificates that every node accepts")


@certificates.command("renew")
@_directory
@_names
@_days
def renew_command(directory: Path, names: tuple[str, ...], days: int) -> None:
    """Replace the certificate and key in DIRECTORY by new ones of the authority there.

    Copy them to the nodes: a node uses them from its next connection on, without a restart.

    \b
    Examples:
      kernel certificates renew tls
    """
    renew(directory, names, days)
    click.echo(f"wrote {CERTIFICATE} and {KEY} into {directory}; copy both to every node, nothing need be restarted")


@certificates.command("show")
@_directory
@json_option
def show_command(directory: Path, as_json: bool) -> None:
    """Show the names and the validity of the certificates in DIRECTORY; fail when one is not valid now.

    \b
    Examples:
      kernel certificates show tls
    """
    now = datetime.now(timezone.utc)
    found = [_described(directory / name) for name in (AUTHORITY, CERTIFICATE)]
    if as_json:
        display.echo_json([_row(info, now) for info in found])
    else:
        lines = [
            (Path(info.path).name, info.state(now), f"{info.ends:%Y-%m-%d}", ", ".join(info.names) or info.subject)
            for info in found
        ]
        display.table(("FILE", "STATE", "UNTIL", "FOR"), lines)
    for info in found:
        if info.state(now) == "expires soon":
            click.echo(
                f"{info.path} expires in {display.count((info.ends - now).days, 'day')}; "
                f"run: kernel certificates renew {directory}",
                err=True,
            )
    invalid = [f"{info.path} is {info.state(now)}" for info in found if info.state(now) in ("expired", "not valid yet")]
    if invalid:
        raise Failure(f"{' and '.join(invalid)}; renew with: kernel certificates renew {directory}")


def _described(path: Path) -> CertificateInfo:
    try:
        return describe(path)
    except OSError as error:
        raise Refusal(
            f"{path} can't be read ({error.strerror}); make certificates with: kernel certificates create {path.parent}"
        ) from error


def _row(info: CertificateInfo, now: datetime) -> dict[str, Any]:
    return {
        "file": info.path,
        "subject": info.subject,
        "names": list(info.names),
        "begins": info.begins.isoformat(),
        "ends": info.ends.isoformat(),
        "state": info.state(now),
    }
