"""Detect the resources of this machine: CPUs and memory, and devices by the accelerator plugins."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.plugin_faults import told
from kernel_spec.accelerators import Accelerator, Device
from kernel_spec.errors import ContractError
from kernel_spec.resources import CPU, MEMORY, OBJECT_STORE_MEMORY

_STORE_SHARE = 0.3
_STORE_MINIMUM, _STORE_MAXIMUM = 64 << 20, 20 << 30
_ADDRESS_PARTS = 8
"""Divisor of a limited address space (`ulimit -v`) for the store's size, because processes map it more than once."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def count_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()


def available_memory() -> int:
    """Return bytes of memory that are free now, within the container's limit."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in _read("/proc/meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: all of it, then
    for path in _LIMITS:
        try:
            text = _read(path).strip()
        except OSError:
            continue
        if text.isdigit():
            free = min(free, int(text))
    return free


def detect_devices(
    accelerators: Sequence[Accelerator], label: Callable[[Any], str], on_fault: Callable[[str], None]
) -> dict[str, Sequence[Device]]:
    """Return the devices of each resource. `on_fault(text)` reports one that raises or finds invalid devices.

    `label(accelerator)` returns its name for messages.
    """
    found: dict[str, Sequence[Device]] = {}
    for accelerator in accelerators:
        try:
            devices = accelerator.detect(os.environ)
            if not isinstance(devices, Sequence) or not all(isinstance(device, Device) for device in devices):
                raise ContractError(f"it returned {devices!r:.200}, which is no sequence of Device")
        except Exception as error:
            what = f"{label(accelerator)}, for the resource {accelerator.resource!r}: its detect()"
            on_fault(told(what, error, "this node has no such devices"))
            continue
        if devices:
            found[accelerator.resource] = devices
    return found


def total_resources(
    given: Mapping[str, float], devices: Mapping[str, Sequence[Device]], address: str, store_bytes: int
) -> dict[str, float]:
    """Return what the node offers: what was given, and for the rest what was detected."""
    total: dict[str, float] = {CPU: float(count_cpus()), **{name: float(len(d)) for name, d in devices.items()}}
    free = available_memory()
    total[OBJECT_STORE_MEMORY] = float(store_bytes)
    total[MEMORY] = float(max(0, int((free - store_bytes) * 0.7)))
    for model in {device.model for models in devices.values() for device in models if device.model}:
        total[f"accelerator_type:{model.replace(' ', '-')}"] = 1.0
    total |= {name: float(quantity) for name, quantity in given.items()}
    total[f"node:{address}"] = 1.0
    return {name: quantity for name, quantity in total.items() if quantity > 0}


def choose_store_bytes(given: int) -> int:
    """Return the store's capacity: as given, or a share of free memory and of the limit of address space."""
    if given:
        return given
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    mappable = limit // _ADDRESS_PARTS if limit != resource.RLIM_INFINITY else _STORE_MAXIMUM
    return max(_STORE_MINIMUM, min(_STORE_MAXIMUM, mappable, int(available_memory() * _STORE_SHARE)))


def host_name() -> str:
    """Return this machine's name."""
    return socket.gethostname()


def address_towards(host: str, port: int) -> str:
    """Return the local address for connections to `host`. Sends nothing; raises OSError when `host` is unreachable."""
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as sock:
        sock.connect(place)
        return str(sock.getsockname()[0])
