"""Say why a proxy can't have a port, and which program has it."""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
from collections.abc import Iterator
from pathlib import Path

from kernel_serve.errors import ServeError

_LISTENS = "0A"
"""The state of a listening socket in Linux's tables."""
_WORKER = b"kernel: worker"
"""The name of kernel's worker processes: their command does not tell them apart."""
_LONGEST = 100
"""The number of characters of a command that a message shows."""


def check_free(host: str, port: int) -> None:
    """Raise OSError if a TCP port can't be bound, or could only be shared with its holder."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def cannot_listen(what: str, host: str, port: int, error: OSError, option: str) -> ServeError:
    """Return the error for a proxy that can't do `what` at a port, which `option` of serve.start sets."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    holder = holder_of(port) if error.errno == errno.EADDRINUSE else ""
    failed = f"the proxy can't {what} on {where}: {error.strerror}{f', by {holder}' if holder else ''}"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        here = 'serve.start(http_options={"host": "127.0.0.1"})'
        return ServeError(f'{failed}; name an address of this machine, as in {here}, or "0.0.0.0" for all of them')
    another = f'serve.start({option}={{"port": {_another(port)}}})'
    return ServeError(f"{failed}; give it another port, as in {another}, or 0 for any that is free")


def holder_of(port: int) -> str:
    """Return the program that listens at a TCP port of this machine; "" if that can't be found out."""
    found = dict(_listening(port))
    if not found:
        return ""
    for process in sorted((each for each in Path("/proc").iterdir() if each.name.isdigit()), key=lambda p: int(p.name)):
        if _has(process, found):
            return f"process {process.name} ({_command(process)})"
    user = next(iter(found.values()))
    with contextlib.suppress(KeyError):  # the user may have no name
        return f"a process of user {pwd.getpwuid(user).pw_name}"
    return f"a process of user {user}"


def _listening(port: int) -> Iterator[tuple[str, int]]:
    """Yield inode and user of each socket that listens at a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table) as lines:  # only Linux has such tables
            next(lines, None)
            for fields in map(str.split, lines):
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9], int(fields[7])


def _has(process: Path, inodes: dict[str, int]) -> bool:
    """Return whether a process has one of these sockets open. It can't be seen for processes of other users."""
    with contextlib.suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                if os.readlink(descriptor).removeprefix("socket:[").rstrip("]") in inodes:
                    return True
    return False


def _command(process: Path) -> str:
    try:
        if (process / "comm").read_bytes().startswith(_WORKER):
            return "a worker of a kernel session, such as the proxy of another one"
        words = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    except OSError:
        return "which has just ended"
    return words if len(words) <= _LONGEST else words[:_LONGEST] + "..."


def _another(port: int) -> int:
    return port + 1 if 1024 <= port < 65535 else 8000
