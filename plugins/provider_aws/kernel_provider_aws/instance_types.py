"""The resources of instance types, as EC2 describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernel_provider_aws.clients import Clients
from kernel_provider_aws.errors import translating

MEMORY_SHARE = 0.7
"""The share of a machine's memory that tasks may reserve; the rest is for the system and the object store."""
_BATCH = 100


def resources_of_types(clients: Clients, types: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the resources of each instance type. Raises NodeProviderError: `invalid` for one that the region lacks."""
    wanted = sorted(set(types))
    found: dict[str, dict[str, float]] = {}
    for first in range(0, len(wanted), _BATCH):
        with translating(f"learn what instance types {', '.join(wanted[first : first + _BATCH])} have"):
            answer = clients["ec2"].describe_instance_types(InstanceTypes=wanted[first : first + _BATCH])
        found |= {said["InstanceType"]: _resources(said) for said in answer["InstanceTypes"]}
    return found


def _resources(said: Mapping[str, Any]) -> dict[str, float]:
    found = {
        "CPU": float(said["VCpuInfo"]["DefaultVCpus"]),
        "memory": float(int(said["MemoryInfo"]["SizeInMiB"] * 2**20 * MEMORY_SHARE)),
    }
    gpus = said.get("GpuInfo", {}).get("Gpus", [])
    if gpus:
        found["GPU"] = float(sum(gpu["Count"] for gpu in gpus))
        found[f"accelerator_type:{gpus[0]['Name'].replace(' ', '-')}"] = 1.0
    return found
