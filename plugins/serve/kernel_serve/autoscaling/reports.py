"""The sums of the routers' reports. A router that stops reporting no longer counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from kernel_serve.autoscaling.window import LEAST_PATIENCE
from kernel_serve.values import RouterReport
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeploymentLoad:
    """Counts the requests of one deployment at a moment, in all routers together."""

    queued: int = 0
    ongoing: int = 0
    replicas: Mapping[str, int] = field(default_factory=dict)
    """The number of requests that were sent to each replica, by its id."""


class RouterReports:
    """Keeps the latest report of each router, as long as it counts: for `patience` seconds."""

    def __init__(self, now: float, patience: float = LEAST_PATIENCE) -> None:
        self._patience = patience
        self._since = now
        self._latest: dict[str, tuple[float, RouterReport]] = {}

    def take(self, now: float, report: RouterReport) -> None:
        """Replace what a router reported before."""
        self._latest[report.router] = (now, report)

    def load(self, now: float, key: str, alive: Collection[str] | None = None) -> DeploymentLoad | None:
        """Return the requests of the deployment `key`, without those at replicas that are not in `alive`.

        Returns None while nothing can be known: in the first moments, before a report has come.
        """
        for router in [name for name, (at, _) in self._latest.items() if now - at > self._patience]:
            del self._latest[router]
        if not self._latest and now - self._since < self._patience:
            return None
        queued = 0
        replicas: dict[str, int] = {}
        for _, report in self._latest.values():
            queued += report.queued.get(key, 0)
            for replica, number in report.ongoing.get(key, {}).items():
                if alive is None or replica in alive:
                    replicas[replica] = replicas.get(replica, 0) + number
        return DeploymentLoad(queued, sum(replicas.values()), replicas)
