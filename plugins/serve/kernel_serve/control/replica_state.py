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
"""So many checks of health in a row that fail make a replica unhealthy."""
RECHECK_SECONDS = 1.0
"""After a check that failed the next one comes so soon, if that is sooner than usual."""
LOST_CHECK_SECONDS = 5.0
"""How long a replica may take to answer when a router has lost it."""


@dataclass(slots=True)
class ReplicaState:
    """A replica, from its first instruction until it is gone. Times are in seconds on the clock of those who call."""

    id: str
    spec: DeploymentSpec
    """That it was started with."""
    settings: DeploymentSettings
    """Those that it has; they can be newer than those of `spec`."""
    number: int
    """Rises with each replica of the deployment."""
    round: int
    started: float
    rank: int
    """No other replica of the deployment has it, until this one is gone."""
    standing: Standing
    """That it was told last."""
    phase: str = STARTING
    node: str = ""
    socket: str = ""
    waits_since: float | None = None
    """Since when it is known to have no place to run; None: it has one, or nothing is known."""
    waits_for: str = ""
    could_fit: bool = True
    """Whether any node is large enough for it."""
    ready_at: float = 0.0
    unwell: bool = False
    """Whether it must be replaced, because it is not healthy or could not take its settings."""
    urgent: bool = False
    """Whether somebody has lost it, so that the next check is not to take long."""
    reconfiguring: Reconfigure | None = None
    """What it is being told."""
    checking: bool = False
    next_check: float = 0.0
    failed_checks: int = 0
    stop_by: float = 0.0

    @property
    def running(self) -> bool:
        """Whether it takes requests."""
        return self.phase == RUNNING

    def become_ready(self, node: str, socket: str, now: float) -> None:
        """It takes requests from now on."""
        self.phase, self.node, self.socket, self.ready_at = RUNNING, node, socket, now
        self.waits_since, self.waits_for = None, ""
        self.next_check = now + self.settings.health_check_period_s

    def passed_check(self, now: float) -> None:
        """It has answered that it is well."""
        self.checking, self.failed_checks = False, 0
        self.next_check = now + self.settings.health_check_period_s

    def missed_check(self, now: float) -> bool:
        """It has not; return whether it counts as unhealthy now."""
        self.checking = False
        self.failed_checks += 1
        self.next_check = now + min(RECHECK_SECONDS, self.settings.health_check_period_s)
        return self.failed_checks >= FAILED_CHECKS


def alike(one: DeploymentSettings, other: DeploymentSettings) -> bool:
    """Return whether a replica need not be told the difference between two settings."""
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
