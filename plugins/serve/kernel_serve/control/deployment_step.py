"""Decide what to do about a deployment now: one step from its replicas to its goal."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from kernel_serve.control import ranks, rollout, scale_down_choice
from kernel_serve.control.attempts import SETTLED_SECONDS
from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.control.deployment_status import unavailable_message
from kernel_serve.control.instructions import (
    CheckReplica,
    DrainReplica,
    Instruction,
    KillReplica,
    PublishTopic,
    Reconfigure,
    StartReplica,
)
from kernel_serve.control.replica_state import LOST_CHECK_SECONDS, RUNNING, STARTING, STOPPING, ReplicaState, alike
from kernel_serve.values import Standing

STUCK_SECONDS = 5.0
"""A replica that has waited for room for so many seconds counts as stuck: an old replica must stop to make room."""
STOP_MARGIN = 10.0
"""Seconds beyond its limit that the end of a replica may take before it is killed (again)."""


class DeploymentStep:
    """One step.

    `leaving` are the nodes that are about to leave; `per_node` counts the replicas of all deployments by node.
    """

    def __init__(
        self, state: DeploymentState, now: float, leaving: Collection[str], per_node: Mapping[str, int]
    ) -> None:
        self._state = state
        self._now = now
        self._leaving = leaving
        self._per_node = per_node
        self._out: list[Instruction] = []

    def take(self) -> list[Instruction]:
        """Change the state, and return the instructions that this takes."""
        state = self._state
        self._stop([replica for replica in state.running() if replica.unwell])
        self._stop([replica for replica in self._old() if not replica.running])
        self._stop_old(self._count())
        new = self._new()
        self._stop(scale_down_choice.choose(new, len(new) - state.target, self._leaving, self._per_node))
        self._start(self._count())
        self._close_ranks()
        self._reconfigure()
        self._check_health()
        self._kill_late()
        self._look_back()
        self._publish()
        state.next_step = min(self._times(), default=math.inf)
        return self._out

    # -- counting --------------------------------------------------------------------------------------------------

    def _is_new(self, replica: ReplicaState) -> bool:
        return self._state.is_of_now(replica) and replica.node not in self._leaving

    def _new(self) -> list[ReplicaState]:
        replicas = self._state.replicas.values()
        return [replica for replica in replicas if replica.phase != STOPPING and self._is_new(replica)]

    def _old(self) -> list[ReplicaState]:
        replicas = self._state.replicas.values()
        return [replica for replica in replicas if replica.phase != STOPPING and not self._is_new(replica)]

    def _count(self) -> rollout.Counts:
        state, new, old = self._state, self._new(), self._old()
        running = sum(replica.running for replica in new)
        leaving = [replica for replica in old if replica.node in self._leaving]
        stopping = [replica for replica in state.replicas.values() if replica.phase == STOPPING]
        return rollout.Counts(
            wanted=state.target,
            step=rollout.step_of(state.target, state.spec.settings.rolling_update_percentage),
            new_starting=len(new) - running,
            new_running=running,
            old_running=len(old),
            leaving=len(leaving),
            stopping=sum(replica.node not in self._leaving for replica in stopping),
            stuck=any(self._stuck(replica) for replica in new),
        )

    def _stuck(self, replica: ReplicaState) -> bool:
        since = replica.waits_since
        return since is not None and replica.could_fit and self._now - since >= STUCK_SECONDS

    # -- starting and stopping -------------------------------------------------------------------------------------

    def _stop_old(self, counts: rollout.Counts) -> None:
        spare = rollout.to_stop(counts)
        if not spare and rollout.must_make_room(counts):
            staying = [replica for replica in self._old() if replica.node not in self._leaving]
            self._stop(scale_down_choice.choose(staying, 1, self._leaving, self._per_node))
        else:
            self._stop(scale_down_choice.choose(self._old(), spare, self._leaving, self._per_node))

    def _stop(self, replicas: Sequence[ReplicaState]) -> None:
        settings = self._state.spec.settings
        for replica in replicas:
            if replica.phase == STARTING:
                self._out.append(KillReplica(replica.id))
                wait = timeout = 0.0
            else:
                wait, timeout = settings.graceful_shutdown_wait_loop_s, settings.graceful_shutdown_timeout_s
                self._out.append(DrainReplica(replica.id, wait, timeout))
            replica.phase, replica.reconfiguring = STOPPING, None
            replica.stop_by = self._now + timeout + STOP_MARGIN
            self._state.note(self._now, f"{replica.id} is to end")

    def _start(self, counts: rollout.Counts) -> None:
        state = self._state
        number = 0 if self._now < state.attempts.not_before else rollout.to_start(counts)
        if state.attempts.failed and not counts.new_running:
            number = min(number, 1 - counts.new_starting)  # One is enough to find out whether the version starts now.
        for _ in range(number):
            state.number += 1
            id = state.new_id(state.key)
            standing = Standing(ranks.lowest_free(self._ranks()), state.target)
            replica = ReplicaState(
                id,
                state.spec,
                state.spec.settings,
                state.number,
                state.attempts.current,
                self._now,
                standing.rank,
                standing,
            )
            state.replicas[id] = replica
            state.note(self._now, f"{id} is to start, as version {state.spec.version}")
            self._out.append(StartReplica(id, state.spec, state.route_prefix, standing))

    def _ranks(self) -> set[int]:
        """Return the ranks that are taken. A replica that is ending keeps its own: it may still work with it."""
        return {replica.rank for replica in self._state.replicas.values()}

    def _close_ranks(self) -> None:
        """Close gaps in the ranks, so that they go from 0 up, once no replica is being replaced."""
        if self._old():
            return
        running = {replica.id: replica.rank for replica in self._new() if replica.running}
        for id, rank in ranks.closed(running, self._ranks(), self._state.target).items():
            self._state.replicas[id].rank = rank

    def _reconfigure(self) -> None:
        """Send the current settings to running replicas, a step of them at a time, and to each its standing."""
        state = self._state
        if self._now < state.attempts.not_before:
            return
        settings = state.spec.settings
        running = [replica for replica in self._new() if replica.running]
        if state.attempts.failed and not any(alike(replica.settings, settings) for replica in running):
            return  # The failed one's replacement shows whether the settings work at all.
        room = rollout.step_of(state.target, settings.rolling_update_percentage)
        room -= sum(_takes_settings(replica) for replica in running)
        for replica in running:
            if replica.reconfiguring is not None:
                continue
            same, standing = alike(replica.settings, settings), Standing(replica.rank, state.target)
            if room > 0 and not same:
                room -= 1
            elif not same or replica.standing == standing:
                continue
            replica.reconfiguring = Reconfigure(replica.id, settings, standing)
            replica.round = state.attempts.current
            self._out.append(replica.reconfiguring)

    # -- health ----------------------------------------------------------------------------------------------------

    def _check_health(self) -> None:
        for replica in self._state.running():
            if replica.checking or replica.next_check > self._now or _takes_settings(replica):
                continue
            timeout = replica.settings.health_check_timeout_s
            if replica.urgent:
                timeout = min(timeout, LOST_CHECK_SECONDS)
            replica.checking, replica.urgent = True, False
            self._out.append(CheckReplica(replica.id, timeout))

    def _kill_late(self) -> None:
        for replica in self._state.replicas.values():
            if replica.phase == STOPPING and self._now >= replica.stop_by:
                replica.stop_by = self._now + STOP_MARGIN
                self._state.note(self._now, f"{replica.id} did not end in time, and is killed")
                self._out.append(KillReplica(replica.id))

    def _look_back(self) -> None:
        """Mark replicas that run well as settled, and the goal as reached if it is."""
        state = self._state
        new = [replica for replica in self._new() if replica.running]
        for replica in new:
            if self._now - replica.ready_at >= SETTLED_SECONDS:
                state.attempts.succeed(replica.round)
        if len(new) < min(state.target, state.converges_at if not state.converged else state.target):
            return
        state.degraded = False
        if not state.attempts.failed:
            state.attempts.message = ""
        if state.converged or self._old_code():
            return
        if all(alike(replica.settings, state.spec.settings) for replica in new):
            state.converged = True
            state.note(self._now, f"is as it is to be, with {len(new)} replicas of version {state.spec.version}")

    def _old_code(self) -> bool:
        return any(not self._state.is_of_now(replica) for replica in self._old())

    # -- publishing ------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        state, settings = self._state, self._state.spec.settings
        replicas = [(replica.id, replica.settings.max_ongoing_requests) for replica in state.running()]
        message = "" if replicas else unavailable_message(state)
        told = (replicas, settings.max_queued_requests, settings.request_timeout_s, state.deleting, message)
        if told != state.published:
            state.published = told
            self._out.append(PublishTopic(state.key))

    def _times(self) -> Iterator[float]:
        state = self._state
        if state.attempts.not_before > self._now:
            yield state.attempts.not_before
        for replica in state.replicas.values():
            if replica.phase == STOPPING:
                yield replica.stop_by
            elif replica.phase == RUNNING:
                if not replica.checking and not _takes_settings(replica):
                    yield replica.next_check
                if state.attempts.failed and replica.ready_at + SETTLED_SECONDS > self._now:
                    yield replica.ready_at + SETTLED_SECONDS
            elif replica.waits_since is not None and not self._stuck(replica) and replica.could_fit:
                yield replica.waits_since + STUCK_SECONDS


def _takes_settings(replica: ReplicaState) -> bool:
    """Return whether a replica is being sent other settings, rather than its standing alone."""
    return replica.reconfiguring is not None and not alike(replica.settings, replica.reconfiguring.settings)
