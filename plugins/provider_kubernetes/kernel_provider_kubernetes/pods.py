"""Compose the objects that the provider makes: a pod for each node, and the secret with the cluster's token."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import shlex
from collections.abc import Mapping
from typing import Any

from kernel_provider_kubernetes.kinds import PodKind, node_container
from kernel_provider_kubernetes.options import PodOptions

CLUSTER, KIND, ORDER = "kernel/cluster", "kernel/kind", "kernel/order"
"""The labels of a pod: which cluster's it is, which kind, and which call of `create` has made it."""
MANAGED = {"app.kubernetes.io/managed-by": "kernel"}
SHARED_MEMORY = "kernel-shared-memory"
_TOKEN = "token"


def pod_names(cluster: str, kind: str, token: str, count: int) -> list[str]:
    """Return the names of the pods that the call of `create` with this token makes: always the same."""
    order = order_of(token)
    return [f"{cluster}-{kind}-{order}-{index}" for index in range(count)]


def order_of(token: str) -> str:
    """Return what stands for a token in names and labels."""
    return hashlib.sha256(token.encode()).hexdigest()[:12]


def secret_name(cluster: str) -> str:
    """Return the name of the secret with which pods join."""
    return f"{cluster}-join"


def secret_of(options: PodOptions, token: str) -> dict[str, Any]:
    """Return the secret with the cluster's token."""
    labels = {**MANAGED, CLUSTER: options.cluster}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": secret_name(options.cluster), "labels": labels, **_owners(options)},
        "data": {_TOKEN: base64.b64encode(token.encode()).decode()},
    }


def pod_of(options: PodOptions, kind: PodKind, name: str, token: str, address: str) -> dict[str, Any]:
    """Return the pod `name` of a kind, for the call of `create` with `token`; its node joins the head at `address`.

    Of the template all is kept but what makes a pod one of ours: its name, our labels, restartPolicy (a node that has
    ended comes back as another one), and the variables and the volume that the node needs.
    """
    template: dict[str, Any] = copy.deepcopy(dict(kind.template))
    metadata: dict[str, Any] = dict(template.get("metadata") or {})
    spec: dict[str, Any] = dict(template["spec"])
    for field in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        metadata.pop(field, None)
    labels = {**MANAGED, CLUSTER: options.cluster, KIND: kind.name, ORDER: order_of(token)}
    metadata |= {"name": name, "labels": {**(metadata.get("labels") or {}), **labels}, **_owners(options)}
    spec["restartPolicy"] = "Never"
    spec.setdefault("shareProcessNamespace", True)  # so that somebody waits for what a worker leaves behind
    _complete(spec, options, kind, address)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _owners(options: PodOptions) -> dict[str, Any]:
    return {"ownerReferences": [dict(options.owner)]} if options.owner else {}


def _complete(spec: dict[str, Any], options: PodOptions, kind: PodKind, address: str) -> None:
    """Give the node's container its command, if it has none, its variables, and shared memory."""
    container: Any = node_container({"spec": spec}, f"kind {kind.name!r}")
    command = node_command(options, kind, address)
    if not container.get("command") and not container.get("args"):
        container["command"] = command
    own: list[dict[str, Any]] = [
        {"name": "KERNEL_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret_name(options.cluster), "key": _TOKEN}}},
        {"name": "KERNEL_PROVIDER_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "KERNEL_NODE_COMMAND", "value": shlex.join(command)},
    ]
    taken = {one["name"] for one in own}
    container["env"] = [*(one for one in container.get("env") or () if one.get("name") not in taken), *own]
    mounts = list(container.get("volumeMounts") or ())
    if not any(one.get("mountPath") == "/dev/shm" for one in mounts):
        volume = {"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": str(_shared(kind.store))}}
        spec["volumes"] = [*(spec.get("volumes") or ()), volume]
        container["volumeMounts"] = [*mounts, {"name": SHARED_MEMORY, "mountPath": "/dev/shm"}]


def _shared(store: int) -> int:
    """Return the size of shared memory for an object store: a tenth more, for what else lies there."""
    return store + store // 10 + 2**24


def node_command(options: PodOptions, kind: PodKind, address: str) -> list[str]:
    """Return the command that makes a container a node of the cluster. The token is not in it."""
    more: Mapping[str, float] = {
        name: amount for name, amount in kind.resources.items() if name not in ("CPU", "GPU", "memory")
    }
    command = [
        "kernel", "start", "--address", address, "--port", str(options.port),
        "--num-cpus", f"{kind.resources['CPU']:g}", "--num-gpus", f"{kind.resources.get('GPU', 0):g}",
        "--memory", str(int(kind.resources["memory"])), "--object-store-memory", str(kind.store),
    ]  # fmt: skip
    if kind.memory_limit:
        command += ["--memory-limit", str(kind.memory_limit)]
    if more:
        command += ["--resources", json.dumps(more, sort_keys=True)]
    for name, value in kind.details.labels.items():
        command += ["--labels", f"{name}={value}"]
    return [*command, "--block"]
