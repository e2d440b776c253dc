"""The target number of replicas of each deployment: set by users, or by the autoscaler from routers' reports."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings
from kernel_serve.values import DeploymentSpec, RouterReport


class DeploymentAutoscaler(Protocol):
    """Runs the autoscaler of one deployment: see `kernel_serve.autoscaling.Autoscaler`."""

    settings: AutoscalingConfig

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in how many requests wait, and how many are worked on."""

    def decide(self, now: float, current_target: int, ready: int) -> int:
        """Return the number of replicas that there should be."""

    def update(self, settings: AutoscalingConfig) -> None:
        """Go on with other settings."""

    def saved(self, epoch: float) -> dict[str, Any]:
        """Return what a restarted controller needs of it, as plain values; {} if it needs nothing."""

    def restore(self, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on from what an earlier process of the controller `saved`."""

    def explanation(self, now: float, current_target: int) -> str:
        """Return why it wants `current_target` replicas."""


class LoadReports(Protocol):
    """Keeps the reports of all routers: see `kernel_serve.autoscaling.RouterReports`."""

    def take(self, now: float, report: RouterReport) -> None:
        """Take in the report of a router."""

    def load(self, now: float, key: str, alive: Collection[str] | None = None) -> Any:
        """Return what all reports say of a deployment together, None if no report has anything of it."""


SAVE_SECONDS = 10.0
"""The least time in seconds between two writes that only save the state of users' policies."""


class Scaling:
    """Holds one autoscaler for each deployment with autoscaling."""

    def __init__(
        self, new_autoscaler: Callable[[AutoscalingConfig, str], DeploymentAutoscaler], reports: LoadReports
    ) -> None:
        self._new = new_autoscaler
        self._reports = reports
        self._autoscalers: dict[str, DeploymentAutoscaler] = {}
        self._due: dict[str, float] = {}
        self._saved: dict[str, Any] = {}
        """The state of users' policies by key, as it was last saved."""
        self._look_at_states = -math.inf

    @property
    def next_look(self) -> float:
        """The time of the next decision."""
        return min(self._due.values(), default=math.inf)

    def first_target(self, spec: DeploymentSpec) -> int:
        """Return the first number of replicas of a new deployment."""
        self._set_up(spec)
        settings = spec.settings
        if settings.autoscaling is None:
            return _number(settings)
        initial = settings.autoscaling.initial_replicas
        return settings.autoscaling.min_replicas if initial is None else initial

    def next_target(self, current: int, spec: DeploymentSpec) -> int:
        """Return the number of replicas of a deployment that has `current` of them and gets the new goal `spec`."""
        self._set_up(spec)
        autoscaling = spec.settings.autoscaling
        if autoscaling is None:
            return _number(spec.settings)
        return min(max(current, autoscaling.min_replicas), autoscaling.max_replicas)

    def take(self, report: RouterReport, now: float) -> None:
        """Take in the report of a router. Decide at once for a deployment without replicas for which requests wait."""
        self._reports.take(now, report)

    def hurry(self, key: str) -> None:
        """Decide for a deployment at the next opportunity."""
        if key in self._due:
            self._due[key] = -math.inf

    def forget(self, key: str) -> None:
        """Forget a deployment."""
        for table in (self._autoscalers, self._due, self._saved):
            table.pop(key, None)

    def decide(self, deployments: Mapping[str, DeploymentState], now: float) -> Iterator[tuple[str, int, str]]:
        """Yield key, new number of replicas, and reason for each deployment whose number changes."""
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
        """Return what a restarted controller needs to decide for a deployment as this one would.

        `epoch` is the time at which this clock was at 0, in seconds of a clock that both processes share.
        """
        found = self._autoscalers.get(key)
        if found is None:
            return {}
        kept = found.saved(epoch)
        self._saved[key] = kept.get(_POLICY_STATE)
        return kept

    def restore(self, spec: DeploymentSpec, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Go on with a deployment that an earlier process of the controller knew."""
        self._set_up(spec)
        if spec.key in self._autoscalers:
            self._autoscalers[spec.key].restore(saved, now, epoch)
            self._saved[spec.key] = saved.get(_POLICY_STATE)

    def is_unsaved(self, now: float) -> bool:
        """Return whether the state of a user's policy changed since it was saved.

        It is compared every `SAVE_SECONDS` at most.
        """
        if now < self._look_at_states:
            return False
        self._look_at_states = now + SAVE_SECONDS
        return any(
            autoscaler.saved(0.0).get(_POLICY_STATE) != self._saved.get(key)
            for key, autoscaler in self._autoscalers.items()
        )

    def explanation(self, key: str, target: int, now: float) -> str:
        """Return why a deployment has its number of replicas; "" if a user has set the number."""
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
