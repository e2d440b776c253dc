"""The replica set of a deployment: its replicas that take requests, for routers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.control.deployment_status import is_paused, unavailable_message
from kernel_serve.settings import UNLIMITED
from kernel_serve.values import ENDPOINTS, Replica, ReplicaSet


def replica_set_of(state: DeploymentState, handles: Mapping[str, Any]) -> ReplicaSet:
    """Return the replicas that take requests, with their actors. `handles` are the actors by replica id."""
    settings = state.spec.settings
    running = [replica for replica in state.running() if replica.id in handles and not replica.unwell]
    return ReplicaSet(
        key=state.key,
        replicas=tuple(
            Replica(
                replica.id,
                replica.node,
                replica.socket,
                handles[replica.id],
                replica.spec.version,
                replica.settings.max_ongoing_requests,
            )
            for replica in running
        ),
        max_queued_requests=settings.max_queued_requests,
        request_timeout_s=settings.request_timeout_s,
        exists=not state.deleting,
        message="" if running else unavailable_message(state),
        paused=not running and is_paused(state),
    )


def unpublished_value(topic: str) -> Any:
    """Return the value of a topic that was never published: no endpoints, or a deployment that does not exist."""
    if topic == ENDPOINTS:
        return ()
    application, _, deployment = topic.partition("#")
    message = f"there is no deployment {deployment!r} in an application {application!r}"
    return ReplicaSet(topic, (), UNLIMITED, None, exists=False, message=message)
