"""What the controller counts: applications, deployments, replicas and proxies by their states, starts and failures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.metrics.registry import MetricRegistry
from kernel_serve.values import ends_of_key
from kernel_spec.metric_families import MetricFamily
from kernel_spec.metric_series import GaugeSeries

_DEPLOYMENT = ("application", "deployment")


class ControllerMetrics:
    """Holds the controller's series. Use it on the controller's loop; the registry takes snapshots in any thread."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._replicas = registry.gauge(
            "serve_deployment_replicas", "Replicas that the deployment has, by state.", (*_DEPLOYMENT, "state")
        )
        self._target = registry.gauge(
            "serve_deployment_target_replicas", "Replicas that the deployment is to have.", _DEPLOYMENT
        )
        self._deployments = registry.gauge(
            "serve_deployment_status", "1 for the status that the deployment has.", (*_DEPLOYMENT, "status")
        )
        self._applications = registry.gauge(
            "serve_application_status", "1 for the status that the application has.", ("application", "status")
        )
        self._proxies = registry.gauge("serve_proxies", "Proxies, by status.", ("status",))
        self._starts = registry.counter(
            "serve_replica_starts_total", "Replicas that were begun since the controller runs.", _DEPLOYMENT
        )
        self._failures = registry.counter(
            "serve_replica_failures_total", "Replicas that could not start, or died, since then.", _DEPLOYMENT
        )

    def started(self, key: str) -> None:
        """Count a replica of the deployment `key` that is started."""
        self._starts.labelled(*ends_of_key(key)).value += 1

    def failed(self, key: str) -> None:
        """Count a replica of the deployment `key` that failed."""
        self._failures.labelled(*ends_of_key(key)).value += 1

    def forget(self, key: str) -> None:
        """Remove the series of the deployment `key`, which is deleted."""
        place = ends_of_key(key)
        for counter in (self._starts, self._failures):
            counter.keep(lambda values: values != place)

    def show(self, counts: Mapping[str, Any]) -> None:
        """Set the gauges to `counts`, which `views.counts` returned."""
        targets: dict[tuple[str, ...], float] = {}
        deployments: dict[tuple[str, ...], float] = {}
        applications: dict[tuple[str, ...], float] = {}
        replicas: dict[tuple[str, ...], float] = {}
        for name, application in counts["applications"].items():
            applications[name, application["status"]] = 1
            for deployment, found in application["deployments"].items():
                targets[name, deployment] = found["target_num_replicas"]
                deployments[name, deployment, found["status"]] = 1
                for state, number in found["replica_states"].items():
                    replicas[name, deployment, state] = number
        proxies: dict[tuple[str, ...], float] = {(status,): number for status, number in counts["proxies"].items()}
        for gauge, values in (
            (self._replicas, replicas),
            (self._target, targets),
            (self._deployments, deployments),
            (self._applications, applications),
            (self._proxies, proxies),
        ):
            _set(gauge, values)


def _set(gauge: MetricFamily[GaugeSeries], values: Mapping[tuple[str, ...], float]) -> None:
    """Set the series of a gauge, and remove all others. A snapshot of another thread lacks none of them at any time."""
    for labels, value in values.items():
        gauge.labelled(*labels).value = value
    gauge.keep(values.__contains__)
