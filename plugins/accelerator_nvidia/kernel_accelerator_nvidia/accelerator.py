"""NVIDIA GPUs as the kernel asks for them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernel_accelerator_nvidia.nvml import Nvml, opened_nvml
from kernel_accelerator_nvidia.visible import VISIBLE, visible_names
from kernel_spec.accelerators import Device
from kernel_spec.resources import GPU

_log = logging.getLogger("kernel.accelerator_nvidia")

SHARE = "KERNEL_GPU_SHARE"
DEVICE_ORDER = "CUDA_DEVICE_ORDER"
MPS_PIPE = "CUDA_MPS_PIPE_DIRECTORY"
MPS_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


class NvidiaAccelerator:
    """Finds GPUs with NVML and shows them with `CUDA_VISIBLE_DEVICES`. Keeps no state."""

    resource = GPU
    variable = VISIBLE

    def detect(self, environment: Mapping[str, str]) -> Sequence[Device]:
        """Return the GPUs that `CUDA_VISIBLE_DEVICES` allows, in its order, or none. Never raises."""
        names = visible_names(environment)
        if names == []:
            _log.debug("CUDA_VISIBLE_DEVICES=%r allows no GPU", environment[VISIBLE])
            return []
        try:
            with opened_nvml() as nvml:
                return _allowed_devices(nvml, names)
        except Exception as problem:
            # A machine without GPU, driver or library is the common case, and each fails in a way of its own.
            _log.debug("no NVIDIA GPU found: %s: %s", type(problem).__name__, problem)
            return []

    def isolate(
        self, devices: Sequence[int], shares: Mapping[int, float], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the variables that show only `devices`; empty if `devices` is.

        Raises ValueError for a device that the worker's own `CUDA_VISIBLE_DEVICES` does not have.
        """
        if not devices:
            return {}
        names = visible_names(environment)
        variables: dict[str, str] = {}
        if names is None:
            shown = [str(index) for index in devices]
            variables[DEVICE_ORDER] = "PCI_BUS_ID"  # the order in which the indexes were counted
        else:
            shown = [_name_of(index, names, environment) for index in devices]
        variables[VISIBLE] = ",".join(shown)
        share = min((shares.get(index, 1.0) for index in devices), default=1.0)
        if share < 1:
            variables[SHARE] = f"{share:g}"
            if environment.get(MPS_PIPE):
                variables[MPS_PERCENTAGE] = f"{_percentage(share, environment):g}"
        return variables


def _allowed_devices(nvml: Nvml, names: list[str] | None) -> list[Device]:
    present, problem = nvml.devices()
    if problem:
        _log.warning("a GPU can't be read, so it and those after it are not used: %s", problem)
    if names is None:
        return present
    allowed: list[Device] = []
    for name in names:
        device = _find(nvml, name, present, len(allowed))
        if device is None:
            _log.debug("CUDA_VISIBLE_DEVICES names a device that is not there: %s", name)
            break  # as CUDA does
        if all(device.id != other.id for other in allowed):
            allowed.append(device)
    return allowed


def _find(nvml: Nvml, name: str, present: list[Device], index: int) -> Device | None:
    if name.startswith("MIG-"):
        found = nvml.mig_instance(name, index)
        return replace(found, id=name) if found is not None else _legacy_mig_instance(name, present, index)
    if name.isdecimal():
        matching = [device for device in present if device.index == int(name)]
    else:
        matching = [device for device in present if device.id.startswith(name)]
    return replace(matching[0], index=index) if len(matching) == 1 else None


def _legacy_mig_instance(name: str, present: list[Device], index: int) -> Device | None:
    """Return the instance that an older driver calls `MIG-GPU-<uuid>/<gpu instance>/<compute instance>`."""
    parent_id = name.removeprefix("MIG-").partition("/")[0]
    parents = [device for device in present if device.id == parent_id]
    return Device(index, name, f"{parents[0].model} MIG") if parents else None


def _name_of(index: int, names: list[str], environment: Mapping[str, str]) -> str:
    if not 0 <= index < len(names):
        raise ValueError(
            f"GPU {index} was assigned, but CUDA_VISIBLE_DEVICES={environment[VISIBLE]!r} of this worker names only "
            f"{len(names)}; start the worker with the variable that its node agent has"
        )
    return names[index]


def _percentage(share: float, environment: Mapping[str, str]) -> float:
    """Return the share in percent, at least 1, and at most what the environment allows already."""
    percentage = max(1.0, float(int(share * 100)))
    try:
        return min(percentage, float(environment.get(MPS_PERCENTAGE, "100")))
    except ValueError:
        return percentage
