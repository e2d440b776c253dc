"""Nodes and resources, as Ray's programs read them."""

from __future__ import annotations

import socket
from typing import Any

import kernel
from kernel_compat_ray.deprecation import warn_ignored
from kernel_compat_ray.labels import to_ray


def nodes() -> list[dict[str, Any]]:
    """Return a row per node, with the keys of all generations."""
    rows = kernel.nodes()
    return [
        {
            **row,
            "Labels": to_ray(row["Labels"]),
            "NodeName": row["NodeManagerAddress"],
            "MetricsExportPort": 0,
            "ClientID": row["NodeID"],
            "IsInsertion": row["Alive"],
            "alive": row["Alive"],
            "DeathReasonMessage": row["Cause"],
        }
        for row in rows
    ]


def cluster_resources() -> dict[str, float]:
    """Return resource to total quantity, over all nodes."""
    return kernel.cluster_resources()


def available_resources() -> dict[str, float]:
    """Return resource to the quantity that is free now; a resource of which nothing is free is left out."""
    return {name: quantity for name, quantity in kernel.available_resources().items() if quantity}


def get_node_ip_address(address: str = "") -> str:
    """Return the address of the node where this runs."""
    if kernel.is_initialized():
        here = kernel.get_runtime_context().get_node_id()
        for row in kernel.nodes():
            if row["NodeID"] == here:
                return str(row["NodeManagerAddress"])
    return socket.gethostbyname("localhost")


def show_in_dashboard(message: str, key: str = "", dtype: str = "text") -> None:
    """Do nothing: there is no dashboard to show it in."""
    warn_ignored("ray.show_in_dashboard()", "there is no dashboard to show it in")
