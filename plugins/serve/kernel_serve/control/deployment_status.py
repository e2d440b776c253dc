"""The status of a deployment, as users see it."""

from __future__ import annotations

from typing import Any

from kernel_serve.control.deployment_state import DeploymentState, last_line
from kernel_serve.control.replica_state import PHASES, STARTING

UPDATING = "UPDATING"
HEALTHY = "HEALTHY"
UNHEALTHY = "UNHEALTHY"
UPSCALING = "UPSCALING"
DOWNSCALING = "DOWNSCALING"
DEPLOY_FAILED = "DEPLOY_FAILED"


def status_of(state: DeploymentState) -> str:
    """Return the status of a deployment, one of those above."""
    if state.rolled_back or state.failing:
        return DEPLOY_FAILED
    if state.deleting or (not state.converged and state.updating):
        return UPDATING
    running = len(state.running())
    if state.converged and (state.degraded or (state.attempts.failed and running < state.target)):
        return UNHEALTHY
    if running == state.target:
        return HEALTHY if state.converged else UPDATING
    return UPSCALING if running < state.target else DOWNSCALING


def message_of(state: DeploymentState, now: float) -> str:
    """Return what explains the status, or "" when all is well."""
    if state.rolled_back:
        return state.rolled_back
    status = status_of(state)
    if status == HEALTHY:
        if is_paused(state):
            return "it has num_replicas=0, so nothing answers its requests"
        return _spaced(state, now)
    if status == DEPLOY_FAILED:
        failed = state.attempts
        return f"it failed {failed.in_a_row}, and is tried again now and then. At last:\n{failed.message}"
    said = [f"{len(state.running())} of {state.target} replicas take requests"]
    for replica in state.replicas.values():
        if replica.phase == STARTING and replica.waits_for:
            said.append(f"{replica.id} waits: {replica.waits_for}")
    starting = [now - each.started for each in state.replicas.values() if each.phase == STARTING and not each.waits_for]
    if starting:
        since = f"{len(starting)} {'has' if len(starting) == 1 else 'have'} been starting for {max(starting):.0f} s"
        said.append(f"{since}: {'its constructor runs' if len(starting) == 1 else 'their constructors run'}")
    if spaced := _spaced(state, now):
        said.append(spaced)
    if state.attempts.message:
        said.append(f"the last failure was: {state.attempts.message}")
    return "; ".join(said)


def _spaced(state: DeploymentState, now: float) -> str:
    """Return how often replicas have ended soon after their start, and when the next one starts for that reason."""
    attempts = state.attempts
    if attempts.failed < 2:
        return ""
    left = attempts.not_before - now
    soon = f", so the next one starts in {left:.0f} s" if left > 0 and len(state.replicas) < state.target else ""
    return f"replicas failed {attempts.in_a_row}{soon}"


def is_paused(state: DeploymentState) -> bool:
    """Return whether a user set 0 replicas, so that waiting requests would wait for ever."""
    return state.target == 0 and not state.deleting and state.spec.settings.autoscaling is None


def unavailable_message(state: DeploymentState) -> str:
    """Return why no replica takes requests.

    It has no times or counts in it: it changes only when the reason does.
    """
    if state.deleting:
        return f"{state.key} is being deleted"
    if is_paused(state):
        return f"{state.key} has num_replicas=0: deploy it with more"
    if state.attempts.message:
        return f"{state.key} has no replica: {last_line(state.attempts.message)}"
    waiting = [replica.waits_for for replica in state.replicas.values() if replica.waits_for]
    if waiting:
        return f"{state.key} has no replica yet: {waiting[0]}"
    return f"{state.key} has no replica yet: one is starting" if state.target else ""


def counts(state: DeploymentState) -> dict[str, Any]:
    """Return the status, the target number of replicas, and the number of replicas in each state."""
    phases = {phase: 0 for phase in PHASES}
    for replica in state.replicas.values():
        phases[replica.phase] += 1
    return {
        "status": status_of(state),
        "target_num_replicas": state.target,
        "replica_states": {phase: number for phase, number in phases.items() if number},
    }


def view(state: DeploymentState, now: float) -> dict[str, Any]:
    """Return everything about a deployment as plain values."""
    return {
        **counts(state),
        "name": state.spec.name,
        "message": message_of(state, now),
        "version": state.spec.version,
        "autoscaling": state.spec.settings.autoscaling is not None,
        "replicas": [
            {
                "replica_id": replica.id,
                "rank": replica.rank,
                "state": replica.phase,
                "node_id": replica.node,
                "version": replica.spec.version,
                "age_s": round(now - (replica.ready_at if replica.ready_at else replica.started), 3),
                "waits_for": replica.waits_for,
                "failed_checks": replica.failed_checks,
            }
            for replica in state.replicas.values()
        ],
    }
