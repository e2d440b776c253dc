"""One replica as the controller knows it."""

from __future__ import annotations

from kernel_serve.control.instructions import Reconfigure
from kernel_serve.settings import DeploymentSettings
from kernel_serve.values import DeploymentSpec, Standing
from kernel_spec.dataclass import dataclass

STARTING = "STARTING"
RUNNING = "RUNNING"
STOPPING = "STOPPING"
PHASES = (STARTING, RUNNING, STOPPING)

FAILED_CHECKS = 3
"""The number of failed checks in a row that make a replica unhealthy."""
RECHECK_SECONDS = 1.0
"""Seconds from a failed check to the next one, unless the usual period is shorter."""
LOST_CHECK_SECONDS = 5.0
"""The longest time in seconds that a replica may take to answer a check, when a router has lost its link to it."""


@dataclass(slots=True)
class ReplicaState:
    """Represents a replica, from its first instruction until its end. Times are in seconds of the caller's clock."""

    id: str
    spec: DeploymentSpec
    """The spec that it was started with."""
    settings: DeploymentSettings
    """Its present settings, which can be newer than those of `spec`."""
    number: int
    """A number that rises with each replica of the deployment."""
    round: int
    started: float
    rank: int
    """Its rank. No other replica of the deployment has the same rank until this one has ended."""
    standing: Standing
    """The standing that it was sent last."""
    phase: str = STARTING
    node: str = ""
    socket: str = ""
    waits_since: float | None = None
    """The time at which it was first found without a place to run; None if it has one, or nothing is known."""
    waits_for: str = ""
    could_fit: bool = True
    """Whether a node exists that is large enough for it."""
    ready_at: float = 0.0
    unwell: bool = False
    """Whether it must be replaced, because it is not healthy or could not take its settings."""
    urgent: bool = False
    """Whether a router has lost its link to it, so that the next check must be short."""
    reconfiguring: Reconfigure | None = None
    """The settings that it is being sent."""
    checking: bool = False
    next_check: float = 0.0
    failed_checks: int = 0
    stop_by: float = 0.0

    @property
    def running(self) -> bool:
        """Whether it takes requests."""
        return self.phase == RUNNING

    def become_ready(self, node: str, socket: str, now: float) -> None:
        """Note that it takes requests."""
        self.phase, self.node, self.socket, self.ready_at = RUNNING, node, socket, now
        self.waits_since, self.waits_for = None, ""
        self.next_check = now + self.settings.health_check_period_s

    def passed_check(self, now: float) -> None:
        """Note that it has passed a check of its health."""
        self.checking, self.failed_checks = False, 0
        self.next_check = now + self.settings.health_check_period_s

    def missed_check(self, now: float) -> bool:
        """Note that it has failed a check of its health; return whether it counts as unhealthy now."""
        self.checking = False
        self.failed_checks += 1
        self.next_check = now + min(RECHECK_SECONDS, self.settings.health_check_period_s)
        return self.failed_checks >= FAILED_CHECKS


def alike(one: DeploymentSettings, other: DeploymentSettings) -> bool:
    """Return whether a replica need not be sent the difference between two settings."""
    if one is other:
        return True
    try:
        return all(getattr(one, name) == getattr(other, name) for name in _TOLD)
    except ValueError:  # arrays in user_config can't be compared by ==
        return False


_TOLD = tuple(
    name
    for name in DeploymentSettings.__dataclass_fields__
    if name not in ("num_replicas", "autoscaling", "rolling_update_percentage", "max_constructor_retry_count")
)
