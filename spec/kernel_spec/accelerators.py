"""The accelerator contract: devices of one kind on one machine.

`detect` runs once in the node agent when it starts; `isolate` runs in a worker before user code, each time its
devices change. Neither may fail because a driver or a library is missing: that means "none found". If `detect`
raises, the plugin is reported by name and the node starts without its devices.

On conflict: a hook (all that answer are asked; two for the same resource are refused at start). On absence a
resource counts, but nothing is isolated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """One device. `id` is what the vendor's software calls it (a UUID); `memory` is in bytes, 0 when unknown."""

    index: int
    id: str
    model: str = ""
    memory: int = 0


@runtime_checkable
class Accelerator(Protocol):
    """Devices behind one resource name. Called from one thread at a time.

    An accelerator that restricts devices by an environment variable with a list of them may name it in an attribute
    `variable`. If that is set before the worker starts, user code sees its devices under the names that `isolate` puts
    there.
    """

    resource: str
    """The resource that users ask for, such as `GPU`."""

    def detect(self, environment: Mapping[str, str]) -> Sequence[Device]:
        """Return the devices this process may use, honouring what `environment` already restricts."""
        ...

    def isolate(
        self, devices: Sequence[int], shares: Mapping[int, float], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the environment variables that show user code only `devices` (indexes as detected).

        `shares` gives the share of each device, above 0 and at most 1. `environment` is the worker's, as started.
        """
        ...
