"""The machines of a cluster, as Compute Engine lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_provider_gcp.rest import GoogleRest
from kernel_provider_gcp.settings import GcpSettings
from kernel_spec.providers import ProvidedNode

CLUSTER, ROLE, KIND, TOKEN = (f"kernel-{word}" for word in ("cluster", "role", "kind", "token"))
"""The labels by which machines are known."""
_STATES = {
    "PENDING": "starting",
    "PROVISIONING": "starting",
    "STAGING": "starting",
    "RUNNING": "running",
    "REPAIRING": "running",
    "PENDING_STOP": "stopping",
    "STOPPING": "stopping",
    "DEPROVISIONING": "stopping",
}


class MachineListing:
    """Lists the machines of the cluster and the role in all zones of the project."""

    def __init__(self, rest: GoogleRest, settings: GcpSettings) -> None:
        self._rest = rest
        self._url = f"{rest.compute}/projects/{settings.project}/aggregated/instances"
        self._labels = {CLUSTER: settings.cluster, ROLE: settings.role}

    def found(self, more: Mapping[str, str]) -> list[dict[str, Any]]:
        """Return what there is with these labels besides. Raises GoogleError."""
        wanted = {**self._labels, **more}
        text = " AND ".join(f"(labels.{name} = {value})" for name, value in wanted.items())
        what = f"list the machines of the cluster {self._labels[CLUSTER]}"
        return [
            instance
            for page in self._rest.pages(what, self._url, filter=text, maxResults="500")
            for zone in page.get("items", {}).values()
            for instance in zone.get("instances", ())
        ]


def node_of(said: Mapping[str, Any]) -> ProvidedNode:
    """Return a machine. One that is stopped, or was taken back and kept, has failed."""
    labels, interfaces = said.get("labels", {}), said.get("networkInterfaces") or [{}]
    state = _STATES.get(said["status"], "failed")
    problem = said.get("statusMessage") or f"the machine is {said['status']}" if state == "failed" else ""
    return ProvidedNode(said["name"], labels.get(KIND, ""), state, interfaces[0].get("networkIP", ""), labels, problem)


def zone_of(said: Mapping[str, Any]) -> str:
    """Return the zone of a machine."""
    return str(said["zone"]).rpartition("/")[2]
