"""One deployment: its goal, its replicas, and its history. `deployment_step.py` decides what to do about it.

Pure: times are seconds of any steady clock. `validate` checks what must always hold.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kernel_serve.control.attempts import SETTLED_SECONDS, Attempts
from kernel_serve.control.replica_state import RUNNING, STARTING, STOPPING, ReplicaState, alike
from kernel_serve.values import DeploymentSpec

HISTORY = 200


class DeploymentState:
    """Holds a deployment's state. `new_id` makes replicas' ids; `route_prefix` is the route of its application."""

    def __init__(
        self, spec: DeploymentSpec, target: int, route_prefix: str | None, new_id: Callable[[str], str]
    ) -> None:
        self.spec = spec
        self.key = spec.key
        self.target = target
        self.route_prefix = route_prefix
        self.replicas: dict[str, ReplicaState] = {}
        self.attempts = Attempts()
        self.converged = False
        """Whether the goal was reached at any time since `spec` changed, or a user changed `target`."""
        self.converges_at = target
        """The number of replicas at which the goal counts as reached.

        Replicas that autoscaling added since are not waited for.
        """
        self.updating = True
        """Whether the code or the settings changed last, rather than the number of replicas alone."""
        self.degraded = False
        """Whether replicas were lost and are not replaced yet."""
        self.deleting = False
        self.rolled_back = ""
        """The reason why an earlier version serves instead of the last one; "" if the last one serves."""
        self.next_step = -math.inf
        """The time of the next step."""
        self.published: Any = None
        """The state that was published last."""
        self.new_id = new_id
        self.number = 0
        self.history: deque[str] = deque(maxlen=HISTORY)

    # -- goals -----------------------------------------------------------------------------------------------------

    def change(self, spec: DeploymentSpec, route_prefix: str | None, now: float) -> None:
        """Make `spec` the goal; the target number stays as it is. Nothing happens if `spec` is the goal already."""
        was_deleting, self.deleting = self.deleting, False
        self.route_prefix, self.rolled_back = route_prefix, ""
        before, self.spec = self.spec, spec
        another = spec.version != before.version or was_deleting
        if another or not alike(spec.settings, before.settings) or self.attempts.failed:
            self.attempts.forget()
            self.converged, self.updating = False, True
            self.converges_at = self.target
            self.note(now, f"is to be version {spec.version}" + ("" if another else ", with other settings"))
        self.touch()

    def scale(self, target: int, why: str, now: float, by_user: bool = False) -> bool:
        """Set the target number of replicas; return whether it is a new one."""
        if target == self.target or self.deleting:
            return False
        self.note(now, f"is to have {target} replicas instead of {self.target}: {why}")
        self.target = target
        if by_user:
            self.converges_at = target
            self.updating = self.updating and not self.converged
            self.converged = False
        self.touch()
        return True

    def delete(self, now: float) -> None:
        """Stop all replicas."""
        if not self.deleting:
            self.deleting, self.target = True, 0
            self.note(now, "is to go")
            self.touch()

    def restore(self, replicas: Iterable[ReplicaState], converged: bool, now: float) -> None:
        """Go on from what an earlier process of the controller recorded, with the replicas that it knew."""
        for replica in replicas:
            self.number = max(self.number, replica.number)
            self.replicas[replica.id] = replica
        self.converged = converged
        self.note(now, f"goes on with {len(self.replicas)} replicas of an earlier life of the controller")
        self.touch()

    # -- events ----------------------------------------------------------------------------------------------------

    def waits(self, id: str, reason: str, could_fit: bool, now: float) -> None:
        """Note that a starting replica has no place to run yet, because of `reason`; "" if it has one now."""
        replica = self.replicas.get(id)
        if replica is None or replica.phase != STARTING:
            return
        replica.waits_for, replica.could_fit = reason, could_fit
        if not reason:
            replica.waits_since = None
        elif replica.waits_since is None:
            replica.waits_since = now
            self.note(now, f"{id} waits: {reason}")
        self.touch()

    def ready(self, id: str, node: str, socket: str, now: float) -> None:
        """Note that a replica takes requests."""
        replica = self.replicas.get(id)
        if replica is not None and replica.phase == STARTING:
            replica.become_ready(node, socket, now)
            self.note(now, f"{id} is ready after {now - replica.started:.2f} s")
            self.touch()

    def failed(self, id: str, message: str, now: float) -> None:
        """Note that a replica has ended: its constructor raised, or its process ended. `message` says how."""
        replica = self.replicas.pop(id, None)
        if replica is None:
            return
        if replica.phase == STOPPING:
            self.note(now, f"{id} is gone")
        else:
            self.note(now, f"{id} failed: {last_line(message)}")
            self._blame(replica, message, now)
        self.touch()

    def healthy(self, id: str, now: float) -> None:
        """Note that a replica has passed a check of its health."""
        replica = self.replicas.get(id)
        if replica is not None and replica.running:
            replica.passed_check(now)
            self.touch()

    def unhealthy(self, id: str, message: str, now: float) -> None:
        """Note that a replica has failed a check of its health, or did not answer it in time."""
        replica = self.replicas.get(id)
        if replica is None or not replica.running:
            return
        self.note(now, f"{id} failed a check: {last_line(message)}")
        if replica.missed_check(now):
            self._blame(replica, message, now)
            replica.unwell = True
            self.note(now, f"{id} is unhealthy, and is replaced")
        self.touch()

    def suspect(self, id: str, now: float) -> None:
        """Have a replica checked at once: a router has lost its link to it."""
        replica = self.replicas.get(id)
        if replica is not None and replica.running:
            replica.next_check, replica.urgent = now, True
            self.touch()

    def reconfigured(self, id: str, now: float) -> None:
        """Note that a replica has taken the settings that it was sent."""
        replica = self.replicas.get(id)
        if replica is None or replica.reconfiguring is None:
            return
        replica.settings, replica.standing = replica.reconfiguring.settings, replica.reconfiguring.standing
        replica.reconfiguring = None
        replica.next_check = min(replica.next_check, now + replica.settings.health_check_period_s)
        self.attempts.succeed(replica.round)
        self.touch()

    def reconfigure_failed(self, id: str, message: str, now: float) -> None:
        """Note that a replica could not take the settings that it was sent.

        It may have half of each, and is replaced.
        """
        replica = self.replicas.get(id)
        if replica is None or replica.reconfiguring is None:
            return
        replica.reconfiguring, replica.unwell = None, True
        self.note(now, f"{id} failed to reconfigure: {last_line(message)}")
        if self.is_of_now(replica):
            self.attempts.fail(replica.round, message, now)
        self.touch()

    def gone(self, id: str, now: float) -> None:
        """Note that a replica that was stopped has ended."""
        if self.replicas.pop(id, None) is not None:
            self.note(now, f"{id} is gone")
            self.touch()

    # -- queries ---------------------------------------------------------------------------------------------------

    def is_of_now(self, replica: ReplicaState) -> bool:
        """Return whether a replica runs the code of the goal."""
        return replica.spec.version == self.spec.version

    def running(self) -> list[ReplicaState]:
        """Return the replicas that take requests, oldest first."""
        return [replica for replica in self.replicas.values() if replica.phase == RUNNING]

    @property
    def failing(self) -> bool:
        """Whether the goal has failed to start as often as it may."""
        limit = max(1, self.spec.settings.max_constructor_retry_count)
        return not self.converged and not self.deleting and self.attempts.failed >= limit

    def touch(self) -> None:
        """Have `step` called soon."""
        self.next_step = -math.inf

    def note(self, now: float, text: str) -> None:
        """Add an event to the history."""
        self.history.append(f"{now:.3f} {self.key} {text}")

    def validate(self) -> None:
        """Raise AssertionError if the state is not consistent."""
        assert self.target >= 0, f"{self.key} is to have {self.target} replicas"
        assert not (self.deleting and self.target), f"{self.key} is deleted, and is to have {self.target} replicas"
        for id, replica in self.replicas.items():
            assert replica.id == id and replica.spec.key == self.key, f"{id} is not a replica of {self.key}"
            assert bool(replica.node and replica.socket) or replica.phase != RUNNING, f"{id} runs nowhere"
            assert replica.reconfiguring is None or replica.phase != STARTING, f"{id} takes settings too early"
            assert replica.number <= self.number, f"{id} has a number of the future"
        ranks = [replica.rank for replica in self.replicas.values()]
        assert len({*ranks}) == len(ranks), f"replicas of {self.key} have the same rank: {ranks}"

    def _blame(self, replica: ReplicaState, message: str, now: float) -> None:
        """Count a replica that ended as a failed start, if it never ran, or ran for less than `SETTLED_SECONDS`."""
        if replica.phase != STARTING:
            self.degraded = self.degraded or self.converged
        if self.is_of_now(replica) and (replica.phase == STARTING or now - replica.ready_at < SETTLED_SECONDS):
            self.attempts.fail(replica.round, message, now)
        elif self.is_of_now(replica):
            self.attempts.message = message


def last_line(message: str) -> str:
    """Return the line of a traceback that says most: the error itself."""
    lines = [line for line in message.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else message
