"""Which cluster has which host: a lease for each. What keeps leases is a `LeaseTable`; one in a file is here.

The file is changed under a lock of the system, so that clusters of several processes never get the same host. The lock
is released by the system when its holder dies; the file is replaced as a whole, so that none reads half of one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, UNKNOWN

REMEMBERED_ORDERS = 1000
"""So many tokens of orders are remembered, the last ones."""


@dataclass(frozen=True, slots=True)
class HostKind:
    """A group of hosts. `hosts` are `[USER@]HOST[:PORT]`; `resources` is None if they are to be detected."""

    hosts: tuple[str, ...]
    resources: Mapping[str, float] | None = None
    price: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    boot_seconds: float = 15.0


@dataclass(frozen=True, slots=True)
class HostLease:
    """The right of a cluster to a host. `ended` says that the node there is to end, or has ended."""

    id: str
    host: str
    kind: str
    cluster: str
    ended: bool = False


class LeaseTable(Protocol):
    """Knows the hosts and who has them. Each call may raise NodeProviderError."""

    def kinds(self) -> Mapping[str, HostKind]:
        """Return the groups of hosts by their names."""
        ...

    def of_cluster(self, cluster: str) -> Sequence[HostLease]:
        """Return the leases of a cluster."""
        ...

    def take(self, cluster: str, kind: str, count: int, token: str) -> Sequence[HostLease]:
        """Lease up to `count` free hosts; for the token of an earlier call, return what is left of its leases."""
        ...

    def end(self, cluster: str, ids: Sequence[str]) -> None:
        """Mark leases as ended: their hosts are not free before they are released. Unknown ids are ignored."""
        ...

    def release(self, cluster: str, ids: Sequence[str], failed: bool = False) -> None:
        """Free hosts on which nothing runs any more; take those that have failed last. Unknown ids are ignored."""
        ...


def host_key(host: str) -> str:
    """Return what two names of one host have in common: `HOST:PORT` without the user, in small letters."""
    name = host.rpartition("@")[2].lower()
    bracketed = name.startswith("[")
    has_port = "]:" in name if bracketed else name.count(":") == 1
    return name if has_port else f"{name}:22"


class LeaseFile:
    """Keeps leases of the hosts of `kinds` in `file`, which other clusters may share."""

    def __init__(self, file: Path, kinds: Mapping[str, HostKind]) -> None:
        self._file = file
        self._kinds = dict(kinds)

    def kinds(self) -> Mapping[str, HostKind]:
        """Return the groups of hosts by their names."""
        return dict(self._kinds)

    def of_cluster(self, cluster: str) -> Sequence[HostLease]:
        """Return the leases of a cluster. Raises NodeProviderError where the file can't be read."""
        with self._locked() as said:
            return [lease for lease in _leases(said) if lease.cluster == cluster]

    def take(self, cluster: str, kind: str, count: int, token: str) -> Sequence[HostLease]:
        """Lease up to `count` free hosts; for the token of an earlier call, return what is left of its leases.

        Raises NodeProviderError for an unknown kind, a count below one, and where no host of the kind is free.
        """
        if kind not in self._kinds:
            raise NodeProviderError(
                f"there is no kind {kind!r} of hosts; there are {', '.join(self._kinds)}", code=INVALID
            )
        if count < 1:
            raise NodeProviderError(f"{count} hosts of kind {kind!r} were asked for, not 1 up", code=INVALID)
        with self._locked() as said:
            leases = _leases(said)
            order = f"{cluster} {token}"
            if token and order in said["orders"]:
                return [lease for lease in leases if lease.cluster == cluster and lease.id in said["orders"][order]]
            taken = {host_key(lease.host) for lease in leases}
            last = {key: place for place, key in enumerate(said["failed"])}
            free = [host for host in self._kinds[kind].hosts if host_key(host) not in taken]
            free = sorted(free, key=lambda host: last.get(host_key(host), -1))[:count]
            if not free:
                text = f"none of the {len(self._kinds[kind].hosts)} hosts of kind {kind!r} is free: {_holders(leases)}"
                raise NodeProviderError(text, code=CAPACITY)
            new = [HostLease(f"local-{uuid.uuid4().hex[:12]}", host, kind, cluster) for host in free]
            if token:
                said["orders"][order] = [lease.id for lease in new]
                said["orders"] = dict(list(said["orders"].items())[-REMEMBERED_ORDERS:])
            self._write(said, [*leases, *new])
            return new

    def end(self, cluster: str, ids: Sequence[str]) -> None:
        """Mark leases as ended. Unknown ids are ignored."""
        with self._locked() as said:
            mine = [lease.cluster == cluster and lease.id in ids for lease in _leases(said)]
            leases = [replace(one, ended=True) if own else one for one, own in zip(_leases(said), mine, strict=True)]
            if any(mine):
                self._write(said, leases)

    def release(self, cluster: str, ids: Sequence[str], failed: bool = False) -> None:
        """Free hosts; those that have failed are taken last from now on. Unknown ids are ignored."""
        with self._locked() as said:
            freed = [lease for lease in _leases(said) if lease.cluster == cluster and lease.id in ids]
            keys = [host_key(lease.host) for lease in freed]
            said["failed"] = [key for key in said["failed"] if key not in keys] + (keys if failed else [])
            if freed:
                self._write(said, [lease for lease in _leases(said) if lease not in freed])

    @contextlib.contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(self._file.with_name(f"{self._file.name}.lock"), "a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self._read()
        except PermissionError as error:
            raise NodeProviderError(f"the leases of hosts can't be kept: {error}", code=CREDENTIALS) from None
        except OSError as error:
            raise NodeProviderError(f"the leases of hosts can't be kept: {error}", code=UNKNOWN) from None

    def _read(self) -> dict[str, Any]:
        try:
            said: dict[str, Any] = json.loads(self._file.read_text(encoding="utf-8"))
            _leases(said)
            said["orders"].items(), list(said["failed"])
        except FileNotFoundError:
            return {"leases": [], "orders": {}, "failed": []}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise NodeProviderError(
                f"{self._file} is not a file with leases of hosts; remove it when no cluster uses its hosts",
                code=INVALID,
            ) from None
        return said

    def _write(self, said: Mapping[str, Any], leases: Sequence[HostLease]) -> None:
        new = self._file.with_name(f"{self._file.name}.new")
        with open(new, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            json.dump({**said, "leases": [asdict(lease) for lease in leases]}, file, indent=1)
        new.replace(self._file)


def _leases(said: Mapping[str, Any]) -> list[HostLease]:
    return [HostLease(**one) for one in said["leases"]]


def _holders(leases: Sequence[HostLease]) -> str:
    clusters: dict[str, int] = {}
    for lease in leases:
        clusters[lease.cluster] = clusters.get(lease.cluster, 0) + 1
    return ", ".join(f"{count} held by cluster {name}" for name, count in sorted(clusters.items())) or "it has none"
