"""The resources of machine types, as Compute Engine describes them."""

from __future__ import annotations

from typing import Any

from kernel_provider_gcp.rest import GoogleRest
from kernel_provider_gcp.settings import GcpKind, GcpSettings

MEMORY_SHARE = 0.7
"""The share of a machine's memory that tasks may reserve; the rest is for the system and the object store."""


def resources_of(rest: GoogleRest, settings: GcpSettings, kind: GcpKind) -> dict[str, float]:
    """Return the resources of a kind's machines. Raises GoogleError: `invalid` for a type that the zone lacks."""
    zone = f"{rest.compute}/projects/{settings.project}/zones/{settings.zones[0]}"
    what = f"learn what machine type {kind.machine_type} has in {settings.zones[0]}"
    said = rest.call(what, "GET", f"{zone}/machineTypes/{kind.machine_type}")
    found = {
        "CPU": float(said["guestCpus"]),
        "memory": float(int(said["memoryMb"] * 2**20 * MEMORY_SHARE)),
    }
    own = [(one["guestAcceleratorType"], one["guestAcceleratorCount"]) for one in said.get("accelerators", [])]
    given: list[dict[str, Any]] = kind.body.get("guestAccelerators", [])
    own += [(one["acceleratorType"], one["acceleratorCount"]) for one in given]
    gpus = [(name, count) for name, count in own if "nvidia" in name]
    if gpus:
        found["GPU"] = float(sum(count for _, count in gpus))
        found[f"accelerator_type:{accelerator_name(gpus[0][0])}"] = 1.0
    return found


def accelerator_name(said: str) -> str:
    """Return a GPU's name as nodes say it: T4 for nvidia-tesla-t4, A100-80GB for nvidia-a100-80gb."""
    return said.rpartition("/")[2].removeprefix("nvidia-").removeprefix("tesla-").upper()
