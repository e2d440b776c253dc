"""`kernel token`: show the token of a cluster, to copy it to another machine."""

from __future__ import annotations

from pathlib import Path

import click

from kernel.commands import Refusal
from kernel_processes.cli.client import find_session
from kernel_processes.transport.authentication import write_token


@click.command("token")
@click.argument("session", required=False)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write it to a new file that only you can read.",
)
def token(session: str | None, output: Path | None) -> None:
    """Show the token of a session (default: the newest of yours), for starting nodes on other machines.

    Whoever has it can run any code as you on every node. Keep it in files that only you can read, and never give it on
    a command line.

    \b
    Examples:
      kernel token
      kernel token --output kernel.token
      kernel token | ssh other-machine 'umask 077; cat > kernel.token'
    """
    secret = find_session(session, "run kernel token on one of its machines").token()
    if output is None:
        click.echo(secret.hex())
        return
    try:
        write_token(output, secret)
    except FileExistsError as error:
        raise Refusal(f"{output} is there already; choose another file, or remove it") from error
    except OSError as error:
        raise Refusal(f"{output} can't be written: {error.strerror}") from error
    click.echo(f"wrote the token into {output}, which only you can read")
