"""A node provider over hosts that are there already: a node is started on one that is leased, and ended there again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernel_provider_local.leases import HostKind, HostLease, LeaseTable, host_key
from kernel_provider_local.remote_node import (
    ABSENT,
    DEAD,
    DETECT_SCRIPT,
    FOUND,
    ID_VARIABLE,
    RUNNING,
    RemoteNode,
    detected,
    start_options,
)
from kernel_provider_local.settings import HostSettings
from kernel_provider_local.ssh import Ssh, SshOutcome
from kernel_provider_local.starts import NodeStarts
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import INVALID, UNKNOWN, KindDetails, ProvidedNode

AT_ONCE = 16
"""So many hosts are asked at the same time."""
ADVICE = {
    "Host key verification failed": "check its key and put it into known_hosts (ssh-keyscan)",
    "Permission denied": "its account must let this user's key in (authorized_keys)",
    "not found": "install kernel there, or say where it is: command",
}


class HostProvider:
    """Starts nodes on the hosts of `table`, over `settings.ssh`. `name` is that of the provider."""

    def __init__(self, name: str, settings: HostSettings, table: LeaseTable) -> None:
        self.name = name
        self._settings = settings
        self._table = table
        self._starts = NodeStarts(settings.session / "hosts")
        self._detected: dict[str, Mapping[str, float]] = {}

    @property
    def ssh(self) -> Ssh:
        """How hosts are reached."""
        return self._settings.ssh

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the groups of hosts and the resources of each, which a host is asked for if they are not configured.

        Raises NodeProviderError for a group without configured resources of which no host answers.
        """
        return {name: dict(self._resources(name, kind)) for name, kind in self._table.kinds().items()}

    def describe(self, kind: str) -> KindDetails:
        """Return what is configured for a kind. Raises NodeProviderError for an unknown one."""
        kinds = self._table.kinds()
        if kind not in kinds:
            raise NodeProviderError(f"there is no kind {kind!r} of hosts; there are {', '.join(kinds)}", code=INVALID)
        said = kinds[kind]
        return KindDetails(said.price, labels=dict(said.labels), boot_seconds=said.boot_seconds)

    def list(self) -> Sequence[ProvidedNode]:
        """Return what runs on the hosts of this cluster, which are asked; go on with ending what is to end."""
        return [node for node in self._look(self._table.of_cluster(self._settings.cluster)) if node is not None]

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Lease up to `count` hosts, begin to start a node on each, and return their ids.

        A repeated `token` leases nothing more. Raises NodeProviderError for an unknown kind, a count below one, where
        no host of the kind is free, and where ssh can't be started.
        """
        leases = self._table.take(self._settings.cluster, kind, count, token)
        for lease in leases:
            if not lease.ended and not self._starts.has_begun(lease.id):
                self._begin(lease, join)
        return [lease.id for lease in leases]

    def terminate(self, ids: Sequence[str]) -> None:
        """End the nodes with these ids, and nothing else on their hosts. Unknown ids are ignored.

        A host that can't be reached stays leased until it is, as a node may run there.
        """
        if not ids:
            return
        cluster = self._settings.cluster
        self._table.end(cluster, ids)
        self._look([lease for lease in self._table.of_cluster(cluster) if lease.id in ids])

    def close(self) -> None:
        """End the open connections to the hosts."""
        for kind in self._table.kinds().values():
            for host in kind.hosts:
                self.ssh.close(host)

    def _begin(self, lease: HostLease, join: Mapping[str, Any]) -> None:
        kind = self._table.kinds()[lease.kind]
        options = [*start_options(kind.resources, kind.labels), *self._settings.start_options]
        script = self._node(lease).start_script(str(join["address"]), options)
        log = self._starts.begin(lease.id)
        try:
            pid = self.ssh.begin(lease.host, script, str(join["token"]), log, {ID_VARIABLE: lease.id})
        except NodeProviderError:
            self._table.release(lease.cluster, [lease.id])
            self._starts.forget(lease.id)
            raise
        self._starts.begun(lease.id, pid)

    def _look(self, leases: Sequence[HostLease]) -> Sequence[ProvidedNode | None]:
        if not leases:
            return []
        with ThreadPoolExecutor(min(len(leases), AT_ONCE)) as pool:
            return list(pool.map(self._look_at, leases))

    def _look_at(self, lease: HostLease) -> ProvidedNode | None:
        """Return the node of a lease, None once it is gone: then the host is released."""
        if self._starts.is_starting(lease.id):
            return self._shown(lease, "stopping" if lease.ended else "starting")
        if lease.ended:
            return self._ending(lease)
        outcome = self.ssh.run(lease.host, self._node(lease).find_script())
        found = _found(outcome)
        if found == RUNNING:
            self._starts.note_running(lease.id)
            return self._shown(lease, "running")
        if not self._starts.has_begun(lease.id) and not self._starts.has_run(lease.id) and found in ("", ABSENT):
            return self._shown(lease, "starting", "the head ended before it began to start this node")
        if found == DEAD or (found == ABSENT and self._starts.has_run(lease.id)):
            self._table.end(lease.cluster, [lease.id])
            return self._ending(lease)
        if found == ABSENT:
            said = self._starts.problem(lease.id) or "kernel start has ended without a word"
            return self._shown(lease, "failed", _advised(lease.host, said))
        if found:
            return self._shown(lease, "starting")
        state = "running" if self._starts.has_run(lease.id) else "failed"
        return self._shown(lease, state, _advised(lease.host, _unreached(outcome)))

    def _ending(self, lease: HostLease) -> ProvidedNode | None:
        outcome = self.ssh.run(lease.host, self._node(lease).end_script())
        found = _found(outcome)
        if found == ABSENT:
            failed = not self._starts.has_run(lease.id) and self._starts.has_begun(lease.id)
            self._table.release(lease.cluster, [lease.id], failed)
            self._starts.forget(lease.id)
            return None
        return self._shown(lease, "stopping", "" if found else _advised(lease.host, _unreached(outcome)))

    def _resources(self, name: str, kind: HostKind) -> Mapping[str, float]:
        if kind.resources is not None:
            return kind.resources
        problems = []
        for host in [] if name in self._detected else kind.hosts:
            outcome = self.ssh.run(host, DETECT_SCRIPT)
            resources = detected(outcome.output)
            if resources is not None:
                self._detected[name] = resources
                break
            problems.append(_advised(host, _unreached(outcome)))
        if name not in self._detected:
            text = (
                f"the resources of kind {name!r} can't be detected, as none of its hosts answers: {'; '.join(problems)}"
            )
            raise NodeProviderError(text, code=UNKNOWN)
        return self._detected[name]

    def _node(self, lease: HostLease) -> RemoteNode:
        return RemoteNode(lease.id, self._settings.directory, self._settings.command)

    def _shown(self, lease: HostLease, state: str, problem: str = "") -> ProvidedNode:
        address = host_key(lease.host).removesuffix(":22")
        return ProvidedNode(lease.id, lease.kind, state, address, problem=problem)


def _found(outcome: SshOutcome) -> str:
    """Return what a script has found, "" if it can't be known."""
    word = outcome.output.strip()
    return word if outcome.reached and word in FOUND else ""


def _unreached(outcome: SshOutcome) -> str:
    if outcome.reached:
        return f"it answers with exit code {outcome.code}: {(outcome.problem or outcome.output.strip())[:200]!r}"
    return outcome.problem or "ssh has ended without a word"


def _advised(host: str, problem: str) -> str:
    advice = next((text for word, text in ADVICE.items() if word in problem), "")
    return f"host {host}: {problem}" + (f"; {advice}" if advice else "")
