"""Read the configuration of the provider."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kernel_provider_kubernetes.access import ServerAccess, in_cluster_access, is_in_cluster
from kernel_provider_kubernetes.kinds import PodKind, check_names, kind_of
from kernel_provider_kubernetes.kubeconfig import kubeconfig_access
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import INVALID

_OPTIONS = (
    "cluster", "kinds", "namespace", "kubeconfig", "context", "unschedulable_seconds", "port", "owner", "session",
)  # fmt: skip
_CLUSTER = re.compile(r"[a-z]([-a-z0-9]{0,22}[a-z0-9])?")
WHERE = "the node provider 'kubernetes'"


@dataclass(frozen=True, slots=True)
class PodOptions:
    """What was configured, but for how the API server is reached.

    A pod that no node of Kubernetes takes for `unschedulable_seconds` has failed. Nodes listen at `port`. `owner` has
    the name and the uid of a pod or another object (with its kind) with which all pods end, or nothing.
    """

    cluster: str
    kinds: Mapping[str, PodKind] = field(default_factory=dict)
    unschedulable_seconds: float = 300.0
    port: int = 6380
    owner: Mapping[str, str] = field(default_factory=dict)


def options_of(configuration: Mapping[str, Any]) -> PodOptions:
    """Return what `configuration` says. Raises NodeProviderError, which names the key, for what is wrong in it."""
    check_names(configuration, _OPTIONS, WHERE)
    cluster = str(configuration.get("cluster") or "")
    if not _CLUSTER.fullmatch(cluster):
        raise NodeProviderError(
            f"{WHERE} needs cluster, a name that no other cluster in the namespace has: up to 24 of a-z, 0-9 and -, "
            f"with a letter first, not {cluster!r}",
            code=INVALID,
        )
    kinds = configuration.get("kinds") or {}
    if not kinds:
        raise NodeProviderError(f"{WHERE} needs kinds of pods: kinds.NAME = {{image, cpu, memory}}", code=INVALID)
    seconds, port = configuration.get("unschedulable_seconds", 300.0), configuration.get("port", 6380)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
        raise NodeProviderError(f"unschedulable_seconds of {WHERE} must be above 0, not {seconds!r}", code=INVALID)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise NodeProviderError(f"port of {WHERE} must be 0 to 65535, not {port!r}", code=INVALID)
    owner = configuration.get("owner") or {}
    if owner:
        check_names(owner, ("apiVersion", "kind", "name", "uid"), f"owner of {WHERE}")
        if not owner.get("name") or not owner.get("uid"):
            raise NodeProviderError(f"owner of {WHERE} needs a name and a uid", code=INVALID)
    return PodOptions(
        cluster,
        {str(name): kind_of(str(name), said) for name, said in kinds.items()},
        float(seconds),
        port,
        {"apiVersion": "v1", "kind": "Pod", **owner} if owner else {},
    )


def access_in(configuration: Mapping[str, Any], clock: Callable[[], float]) -> ServerAccess:
    """Return how the API server is reached: by a kubeconfig that is named, as the pod's account, or by KUBECONFIG.

    `clock` returns seconds since the epoch. Raises NodeProviderError where there is no way.
    """
    named, context = str(configuration.get("kubeconfig") or ""), str(configuration.get("context") or "")
    namespace = str(configuration.get("namespace") or "")
    if not named and not context and is_in_cluster():
        return in_cluster_access(namespace)
    files = named or os.environ.get("KUBECONFIG") or "~/.kube/config"
    return kubeconfig_access(files, context, namespace, clock=clock)
