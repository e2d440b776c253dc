"""How many replicas each deployment is to have: as users say, or as the autoscaler decides from routers' reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings
from kernel_serve.values import DeploymentSpec, RouterReport


class DeploymentAutoscaler(Protocol):
    """See `kernel_serve.autoscaling.Autoscaler`."""

    settings: AutoscalingConfig

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in how many requests there are."""

    def decide(self, now: float, current_target: int, ready: int) -> int:
        """Return how many replicas there are to be."""

    def update(self, settings: AutoscalingConfig) -> None:
        """Go on with other settings."""

    def saved(self, epoch: float) -> dict[str, Any]:
        """Return what another life of the controller needs of it, as plain values; nothing if that is nothing."""

    def restore(self, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on from what another life of the controller had `saved`."""

    def explanation(self, now: float, current_target: int) -> str:
        """Return why."""


class LoadReports(Protocol):
    """See `kernel_serve.autoscaling.RouterReports`."""

    def take(self, now: float, report: RouterReport) -> None:
        """Take in what a router says."""

    def load(self, now: float, key: str, alive: Collection[str] | None = None) -> Any:
        """Return what all of them say of a deployment, None if nobody knows."""


SAVE_SECONDS = 10.0
"""How often at most what own policies remember is written down for its own sake."""


class Scaling:
    """One autoscaler for each deployment that has one."""

    def __init__(
        self, new_autoscaler: Callable[[AutoscalingConfig, str], DeploymentAutoscaler], reports: LoadReports
    ) -> None:
        self._new = new_autoscaler
        self._reports = reports
        self._autoscalers: dict[str, DeploymentAutoscaler] = {}
        self._due: dict[str, float] = {}
        self._saved: dict[str, Any] = {}
        """The state of own policies, as it was last saved, by key."""
        self._look_at_states = -math.inf

    @property
    def next_look(self) -> float:
        """When something is to be decided next."""
        return min(self._due.values(), default=math.inf)

    def first_target(self, spec: DeploymentSpec) -> int:
        """Return how many replicas a new deployment has."""
        self._set_up(spec)
        settings = spec.settings
        if settings.autoscaling is None:
            return _number(settings)
        initial = settings.autoscaling.initial_replicas
        return settings.autoscaling.min_replicas if initial is None else initial

    def next_target(self, current: int, spec: DeploymentSpec) -> int:
        """Return how many replicas a deployment with `current` has, now that it is to be as `spec` says."""
        self._set_up(spec)
        autoscaling = spec.settings.autoscaling
        if autoscaling is None:
            return _number(spec.settings)
        return min(max(current, autoscaling.min_replicas), autoscaling.max_replicas)

    def take(self, report: RouterReport, now: float) -> None:
        """Take in what a router says. What waits for a deployment without replicas is decided on at once."""
        self._reports.take(now, report)

    def hurry(self, key: str) -> None:
        """Decide at the next occasion."""
        if key in self._due:
            self._due[key] = -math.inf

    def forget(self, key: str) -> None:
        """A deployment is no more."""
        for table in (self._autoscalers, self._due, self._saved):
            table.pop(key, None)

    def decide(self, deployments: Mapping[str, DeploymentState], now: float) -> Iterator[tuple[str, int, str]]:
        """Yield key, number of replicas and the reason for each deployment that is to have another number."""
        for key, due in list(self._due.items()):
            state = deployments.get(key)
            if now < due or state is None:
                continue
            autoscaler = self._autoscalers[key]
            self._due[key] = now + autoscaler.settings.metrics_interval_s
            if state.deleting:
                continue
            running = state.running()
            load = self._reports.load(now, key, {replica.id for replica in running})
            if load is not None:
                autoscaler.observe(now, load.queued, load.ongoing)
            target = autoscaler.decide(now, state.target, len(running))
            if target != state.target:
                yield key, target, autoscaler.explanation(now, state.target)

    def saved(self, key: str, epoch: float) -> dict[str, Any]:
        """Return what another life of the controller needs to decide on a deployment as this one would.

        `epoch` is when this clock was at 0, in seconds of one that both lives have.
        """
        found = self._autoscalers.get(key)
        if found is None:
            return {}
        kept = found.saved(epoch)
        self._saved[key] = kept.get(_POLICY_STATE)
        return kept

    def restore(self, spec: DeploymentSpec, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on with a deployment that another life of the controller knew."""
        self._set_up(spec)
        if spec.key in self._autoscalers:
            self._autoscalers[spec.key].restore(saved, now, epoch)
            self._saved[spec.key] = saved.get(_POLICY_STATE)

    def is_unsaved(self, now: float) -> bool:
        """Return whether a policy remembers other things than it did when it was saved: looked at now and then."""
        if now < self._look_at_states:
            return False
        self._look_at_states = now + SAVE_SECONDS
        return any(
            autoscaler.saved(0.0).get(_POLICY_STATE) != self._saved.get(key)
            for key, autoscaler in self._autoscalers.items()
        )

    def explanation(self, key: str, target: int, now: float) -> str:
        """Return why a deployment has the number of replicas that it has; nothing if a user has said so."""
        found = self._autoscalers.get(key)
        return found.explanation(now, target) if found is not None else ""

    def _set_up(self, spec: DeploymentSpec) -> None:
        autoscaling = spec.settings.autoscaling
        if autoscaling is None:
            self.forget(spec.key)
        elif spec.key in self._autoscalers:
            self._autoscalers[spec.key].update(autoscaling)
        else:
            self._autoscalers[spec.key] = self._new(autoscaling, spec.key)
            self._due[spec.key] = -math.inf


_POLICY_STATE = "policy_state"


def _number(settings: DeploymentSettings) -> int:
    return 1 if settings.num_replicas is None else settings.num_replicas
