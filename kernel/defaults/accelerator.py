"""The accelerator in its simplest correct form: devices that exist on paper, to try things out without hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernel_spec.accelerators import Device
from kernel_spec.resources import GPU

VISIBLE = "KERNEL_NULL_VISIBLE_DEVICES"


class NullAccelerator:
    """Pretends that the machine has `count` devices, and isolates them by the variable `variable`."""

    def __init__(self, count: int = 0, resource: str = GPU, variable: str = VISIBLE) -> None:
        self.resource = resource
        self.variable = variable
        self._ids = [f"null-{resource}-{number}" for number in range(count)]

    def detect(self, environment: Mapping[str, str]) -> Sequence[Device]:
        """Return the devices that the variable allows, in its order; all of them when it is not set."""
        return [Device(index, id, model="null") for index, id in enumerate(self._visible(environment))]

    def isolate(
        self, devices: Sequence[int], shares: Mapping[int, float], environment: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the variable that shows only `devices`, nothing when there are none."""
        if not devices:
            return {}
        visible = self._visible(environment)
        return {self.variable: ",".join(visible[index] for index in devices)}

    def _visible(self, environment: Mapping[str, str]) -> list[str]:
        value = environment.get(self.variable)
        if value is None:
            return self._ids
        return [name for name in value.split(",") if name in self._ids]
