"""Whose a TCP connection of this machine is: read from /proc, which shows a user's own processes without privileges."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator

_SOCKET = "socket:["
_LISTENS = "0A"


def directories_behind(ports: Collection[int], directories: Collection[str]) -> dict[int, str]:
    """Return, by local port, in which session directory the process listens that has a TCP connection from there.

    A port whose process is gone, or has no socket in any of `directories`, is left out.
    """
    wanted = {inode: port for port, inode in _tcp_sockets() if port in ports}
    places = {inode: place for path, inode in _unix_sockets() for place in directories if path.startswith(place + "/")}
    found: dict[int, str] = {}
    for inodes in _sockets_of_processes():
        theirs = [wanted[inode] for inode in inodes if inode in wanted]
        place = next((places[inode] for inode in inodes if inode in places), None) if theirs else None
        if place is not None:
            found |= dict.fromkeys(theirs, place)
    return found


def connections_of(pids: Collection[int]) -> list[tuple[str, str, int]]:
    """Return the TCP sockets (IPv4) of some processes: own place, that of the other end ("" if it listens), process."""
    rows = {}
    with open("/proc/net/tcp") as file:
        next(file)
        for line in file:
            _, own, other, state, *rest = line.split()
            rows[rest[5]] = (_place(own), "" if state == _LISTENS else _place(other))
    return [(*rows[inode], pid) for pid in pids for inode in _sockets_of(str(pid)) if inode in rows]


def _place(text: str) -> str:
    host, port = text.split(":")
    return f"{'.'.join(str(number) for number in reversed(bytes.fromhex(host)))}:{int(port, 16)}"


def _tcp_sockets() -> Iterator[tuple[int, str]]:
    """Give local port and inode of every TCP socket."""
    with open("/proc/net/tcp") as file:
        next(file)
        for line in file:
            fields = line.split()
            yield int(fields[1].rpartition(":")[2], 16), fields[9]


def _unix_sockets() -> Iterator[tuple[str, str]]:
    """Give path and inode of every UNIX socket that has a path."""
    with open("/proc/net/unix") as file:
        next(file)
        for line in file:
            fields = line.split(maxsplit=7)
            if len(fields) == 8:
                yield fields[7].rstrip("\n"), fields[6]


def _sockets_of_processes() -> Iterator[set[str]]:
    """Give the inodes of the sockets of each process of this user."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        yield _sockets_of(pid)


def _sockets_of(pid: str) -> set[str]:
    """Return the inodes of the sockets of a process."""
    folder = f"/proc/{pid}/fd"
    inodes = set()
    try:
        for descriptor in os.listdir(folder):
            target = os.readlink(f"{folder}/{descriptor}")
            if target.startswith(_SOCKET):
                inodes.add(target[len(_SOCKET) : -1])
    except OSError:
        pass  # it, or one of its descriptors, is gone meanwhile, or it is another user's
    return inodes
