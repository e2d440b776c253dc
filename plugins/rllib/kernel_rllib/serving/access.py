"""Control access to a policy server by a token, which is in a file of the user's where none was chosen."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
import tempfile
from pathlib import Path

from kernel_rllib.errors import ConfigError

VARIABLE = "KERNEL_POLICY_TOKEN"
"""The environment variable that has the token, where it is not passed."""


def server_token(address: str, port: int, token: str | None) -> str:
    """Return the token that clients must have: the given one, that of the variable, or a new one in the user's file.

    Args:
        address: The address at which the server listens.
        port: Its port.
        token: The token; None for one of the other two.

    Raises:
        ConfigError: If there is none, and the server listens beyond this machine.
    """
    chosen = token or os.environ.get(VARIABLE)
    if chosen:
        return chosen
    if not is_loopback(address):
        raise ConfigError(
            f"a policy server at {address}:{port} can be reached from other machines, and has no token: pass "
            f"token=..., or set {VARIABLE}, to the same text for server and clients; or listen at 127.0.0.1"
        )
    made = secrets.token_urlsafe(32)
    path = token_file(port)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(made)
    return made


def client_token(address: str, port: int, token: str | None) -> str:
    """Return the token of a server: the given one, that of the variable, or that of the user's file.

    Raises:
        ConfigError: If there is none.
    """
    chosen = token or os.environ.get(VARIABLE)
    if chosen:
        return chosen
    path = token_file(port)
    if is_loopback(address) and path.is_file():
        return path.read_text(encoding="ascii")
    raise ConfigError(
        f"there is no token for the policy server at {address}:{port}: pass token=..., or set {VARIABLE}, to the one "
        f"that the server has; {path} has it where a server of this user, on this machine, was given none"
    )


def forget_token(port: int, token: str) -> None:
    """Remove the file of a server that has ended, if it is still its own."""
    path = token_file(port)
    if path.is_file() and path.read_text(encoding="ascii") == token:
        path.unlink(missing_ok=True)


def token_file(port: int) -> Path:
    """Return the file of the server at a port.

    Raises:
        ConfigError: If its directory is somebody else's, or others can look into it.
    """
    directory = Path(tempfile.gettempdir()) / f"kernel-policies-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
        raise ConfigError(
            f"{directory}, where tokens of policy servers are, must be a directory of this user's that nobody else can "
            f"read: remove it, or pass a token, or set {VARIABLE}"
        )
    return directory / f"{port}.token"


def is_loopback(address: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
