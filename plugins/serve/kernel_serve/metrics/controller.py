"""What the controller shows: applications, deployments, replicas and proxies by their states, starts and failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.metrics.registry import MetricRegistry
from kernel_serve.values import ends_of_key

_DEPLOYMENT = ("application", "deployment")


class ControllerMetrics:
    """The series of the controller; `status()` is what people are shown of Serve, asked for when somebody looks."""

    def __init__(self, registry: MetricRegistry, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status
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
        registry.collect_by(self._collect)

    def started(self, key: str) -> None:
        """Count a replica of the deployment `key` that is begun."""
        self._starts.labelled(*ends_of_key(key)).value += 1

    def failed(self, key: str) -> None:
        """Count one that failed."""
        self._failures.labelled(*ends_of_key(key)).value += 1

    def forget(self, key: str) -> None:
        """Count the deployment `key` no longer: it is gone."""
        place = ends_of_key(key)
        for counter in (self._starts, self._failures):
            counter.keep(lambda values: values != place)

    def _collect(self) -> None:
        for gauge in (self._replicas, self._target, self._deployments, self._applications, self._proxies):
            gauge.keep(lambda values: False)
        status = self._status()
        for name, application in status["applications"].items():
            self._applications.labelled(name, application["status"]).value = 1
            for deployment, view in application["deployments"].items():
                place = (name, deployment)
                self._target.labelled(*place).value = view["target_num_replicas"]
                self._deployments.labelled(*place, view["status"]).value = 1
                for state, number in view["replica_states"].items():
                    self._replicas.labelled(*place, state).value = number
        for proxy in status["proxies"].values():
            self._proxies.labelled(proxy["status"]).value += 1
