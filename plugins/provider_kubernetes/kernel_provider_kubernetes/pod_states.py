"""Say what became of a pod, as node providers say it: pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any

from kernel_provider_kubernetes.pods import KIND
from kernel_spec.dataclass import dataclass
from kernel_spec.providers import Interruption, ProvidedNode

HOPELESS = (
    "CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ImagePullBackOff",
    "InvalidImageName", "RegistryUnavailable", "RunContainerError", "SignatureValidationFailed",
)  # fmt: skip
"""Why a container that waits is not going to run by waiting."""
_GRACE = 30.0


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No node of Kubernetes takes a pod since `seconds`, because of `reason`."""

    seconds: float
    reason: str


def node_of(pod: Mapping[str, Any], now: float, unschedulable_seconds: float) -> ProvidedNode:
    """Return the node that a pod is. `now` is in seconds since the epoch."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    state, problem = _state(pod, now, unschedulable_seconds)
    labels = {"kubernetes-node": str(pod["spec"]["nodeName"])} if (pod.get("spec") or {}).get("nodeName") else {}
    kind = str((metadata.get("labels") or {}).get(KIND, ""))
    return ProvidedNode(metadata["name"], kind, state, str(status.get("podIP", "")), labels, problem)


def no_room_of(pod: Mapping[str, Any], now: float) -> NoRoom | None:
    """Return since when a pod is unschedulable, None if it is not."""
    found = _condition(pod, "PodScheduled")
    if found is None or found.get("status") != "False" or found.get("reason") != "Unschedulable":
        return None
    since = found.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp")
    seconds = max(0.0, now - seconds_of(since)) if since else 0.0
    return NoRoom(seconds, str(found.get("message") or "no reason was given"))


def interruption_of(pod: Mapping[str, Any], now: float) -> Interruption | None:
    """Return that somebody else than this cluster takes a pod away, None if nobody does.

    That is an eviction (by `kubectl drain`, a disruption of its Kubernetes node, or a lack of memory or disk there), a
    preemption by a pod of higher priority, or a removal by hand.
    """
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return None
    target, metadata = _condition(pod, "DisruptionTarget"), pod["metadata"]
    leaves = metadata.get("deletionTimestamp")
    if (target is None or target.get("status") != "True") and not leaves:
        return None
    grace = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    seconds = seconds_of(leaves) - now if leaves else float(_GRACE if grace is None else grace)
    if target is None:
        reason = "the pod was removed by somebody else"
    else:
        reason = f"{target.get('reason', 'Disruption')}: {target.get('message') or 'the pod is taken away'}"
    return Interruption(metadata["name"], max(0.0, seconds), reason)


def seconds_of(text: object) -> float:
    """Return a time of Kubernetes (`2026-11-28T05:00:00Z`) in seconds since the epoch."""
    return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()


def _state(pod: Mapping[str, Any], now: float, unschedulable_seconds: float) -> tuple[str, str]:
    status = pod.get("status") or {}
    phase = status.get("phase", "Pending")
    if pod["metadata"].get("deletionTimestamp"):
        return "stopping", ""
    if phase == "Failed":
        return "failed", _why_ended(status)
    if phase == "Succeeded":
        return "failed", "the node has ended by itself"
    for name, reason, message in _waiting(status):
        if reason in HOPELESS:
            return "failed", f"container {name!r}: {reason}: {message or 'no more is known'}"
    if phase == "Running":
        return "running", ""
    no_room = no_room_of(pod, now)
    if no_room is not None and no_room.seconds >= unschedulable_seconds:
        return "failed", f"no room for {no_room.seconds:.0f} s: {no_room.reason}"
    return "starting", "" if no_room is None else f"no room yet: {no_room.reason}"


def _waiting(status: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the reason and the message of each container that waits."""
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waits = (one.get("state") or {}).get("waiting")
        if waits:
            yield str(one.get("name", "")), str(waits.get("reason", "")), str(waits.get("message", ""))


def _why_ended(status: Mapping[str, Any]) -> str:
    if status.get("reason") or status.get("message"):
        return f"{status.get('reason', 'Failed')}: {status.get('message') or 'no more is known'}"
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        ended = (one.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            said = ended.get("message") or "look at the pod's log"
            return f"container {one.get('name')!r} ended with {ended['exitCode']} ({ended.get('reason')}): {said}"
    return "the pod has failed without a reason"


def _condition(pod: Mapping[str, Any], type: str) -> Mapping[str, Any] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == type), None)
