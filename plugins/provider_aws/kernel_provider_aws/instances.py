"""The machines of a cluster, as EC2 lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating
from kernel_provider_aws.recent_changes import RecentChanges
from kernel_spec.providers import ProvidedNode

CLUSTER, ROLE, KIND, TOKEN, LAUNCH = (f"kernel-{word}" for word in ("cluster", "role", "kind", "token", "launch"))
"""The tags by which machines are known."""
PAGE = 500
_STATES = {
    "pending": "starting",
    "running": "running",
    "stopping": "stopping",
    "shutting-down": "stopping",
    "stopped": "failed",
}
_FAILURES = (
    "Client.InternalError",
    "Client.InvalidSnapshot.NotFound",
    "Client.VolumeLimitExceeded",
    "Server.InsufficientInstanceCapacity",
    "Server.InternalError",
)
"""Why EC2 ends a machine that it could not start."""


class InstanceListing:
    """Lists the machines of `cluster` and `role`. `clock` returns seconds.

    `keeps_stopped`: a stopped machine is one in reserve, and not listed. Else it is listed as failed. A machine's
    address is its public one, if it has one, and not so with `use_internal_ips`.
    """

    def __init__(
        self,
        clients: Clients,
        cluster: str,
        role: str,
        keeps_stopped: bool,
        clock: Callable[[], float],
        use_internal_ips: bool = False,
    ) -> None:
        self._clients = clients
        self._tags = {CLUSTER: cluster, ROLE: role}
        self._keeps_stopped = keeps_stopped
        self._clock = clock
        self._use_internal_ips = use_internal_ips
        self._recent = RecentChanges()
        self._given_up: set[str] = set()
        self.known: frozenset[str] = frozenset()
        """The machines of the last list."""

    def found(self, tags: Mapping[str, str], states: Sequence[str] = ()) -> list[dict[str, Any]]:
        """Return what EC2 says of the cluster's machines that have these tags and states. Raises NodeProviderError."""
        filters = [{"Name": f"tag:{name}", "Values": [value]} for name, value in {**self._tags, **tags}.items()]
        if states:
            filters.append({"Name": "instance-state-name", "Values": list(states)})
        with translating(f"list the machines of the cluster {self._tags[CLUSTER]}"):
            pages = self._clients["ec2"].get_paginator("describe_instances")
            return [
                instance
                for page in pages.paginate(Filters=filters, PaginationConfig={"PageSize": PAGE})
                for reservation in page["Reservations"]
                for instance in reservation["Instances"]
            ]

    def nodes(self) -> list[ProvidedNode]:
        """Return all machines that there are, those made a moment ago included. Raises NodeProviderError."""
        found = self.found({})
        nodes = [node for node in map(self._node, found) if node is not None]
        there = {node.id for node in nodes}
        gone = [one["InstanceId"] for one in found if one["InstanceId"] not in there]
        nodes = self._recent.applied(nodes, gone, self._clock())
        self.known = frozenset(node.id for node in nodes)
        return nodes

    def made(self, kind: str, ids: Iterable[str]) -> None:
        """Machines were made a moment ago."""
        self._recent.made([ProvidedNode(id, kind, "starting") for id in ids], self._clock())

    def ended(self, ids: Iterable[str]) -> None:
        """Machines were ended a moment ago."""
        ids = list(ids)
        self._recent.ended(ids, self._clock())
        self._given_up |= set(ids)

    def _node(self, said: Mapping[str, Any]) -> ProvidedNode | None:
        """Return a machine; None for one that is no more, or in reserve."""
        id, state, reason = said["InstanceId"], said["State"]["Name"], said.get("StateReason", {})
        if state == "terminated":
            if reason.get("Code") not in _FAILURES or id in self._given_up:
                return None
            state = "failed"
        elif state == "stopped" and self._keeps_stopped:
            return None
        problem = ""
        if state in ("failed", "stopped"):
            problem = reason.get("Message") or "the machine is stopped"
        tags = tags_of(said)
        address = said.get("PrivateIpAddress", "")
        if not self._use_internal_ips:
            address = said.get("PublicIpAddress") or address
        return ProvidedNode(id, tags.get(KIND, ""), _STATES.get(state, state), address, tags, problem)


def tags_of(said: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a machine."""
    return {tag["Key"]: tag["Value"] for tag in said.get("Tags", ())}
