"""The conformance suite for accelerators.

    from kernel_conformance.accelerator import AcceleratorConformance

    class TestMine(AcceleratorConformance):
        make_accelerator = staticmethod(MyAccelerator)

Run it with pytest. Where there is no hardware, arrange for a fake driver and say how many devices it has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.accelerators import Accelerator, Device


class AcceleratorConformance:
    """Every accelerator's tests."""

    make_accelerator: Callable[[], Accelerator]

    environment: Mapping[str, str] = {}
    """The environment in which devices are looked for."""
    least_devices = 0
    """How many devices there must be at least; some tests need two."""
    isolates = True
    """What `isolate` returns restricts what `detect` finds."""

    def accelerator(self) -> Accelerator:
        """Return a fresh one."""
        return type(self).make_accelerator()

    def detected(self) -> list[Device]:
        """Return what it finds in the environment of these tests."""
        return list(self.accelerator().detect(dict(self.environment)))

    def test_is_an_accelerator_with_a_resource(self) -> None:
        accelerator = self.accelerator()
        assert isinstance(accelerator, Accelerator), f"{type(accelerator).__name__} lacks a method of Accelerator"
        assert isinstance(accelerator.resource, str) and accelerator.resource, "name the resource that users ask for"
        assert accelerator.resource not in ("CPU", "memory", "object_store_memory"), "that resource is the kernel's own"

    def test_finds_as_many_as_there_are(self) -> None:
        found = self.detected()
        assert len(found) >= self.least_devices, f"found {len(found)} devices, there should be {self.least_devices}"

    def test_devices_are_counted_from_zero_and_told_apart(self) -> None:
        found = self.detected()
        assert [device.index for device in found] == list(range(len(found))), f"indexes must be 0, 1, 2...: {found}"
        assert len({device.id for device in found}) == len(found), f"two devices have one id: {found}"
        assert all(device.id and device.memory >= 0 for device in found)

    def test_finds_the_same_each_time_and_changes_nothing(self) -> None:
        accelerator, environment = self.accelerator(), dict(self.environment)
        assert list(accelerator.detect(environment)) == list(accelerator.detect(environment)) == self.detected()
        assert environment == dict(self.environment), "detect changed the environment that it was given"

    def test_no_device_leaves_the_environment_alone(self) -> None:
        assert self.accelerator().isolate([], {}, dict(self.environment)) == {}

    def test_isolated_work_finds_exactly_its_devices(self) -> None:
        found = self.detected()
        choices = [[device.index] for device in found] + [[device.index for device in reversed(found)]] * bool(found)
        for chosen in choices:
            variables = self._isolate(chosen)
            if not self.isolates:
                continue
            seen = list(self.accelerator().detect({**self.environment, **variables}))
            expected = [found[index].id for index in chosen]
            assert [device.id for device in seen] == expected, f"assigned {chosen}, with {variables} it sees {seen}"

    def test_isolated_work_can_be_isolated_further(self) -> None:
        found = self.detected()
        if not self.isolates or len(found) < 2:
            return
        outer = {**self.environment, **self._isolate([1, 0])}
        accelerator = self.accelerator()
        inner = {**outer, **accelerator.isolate([0], {0: 1.0}, outer)}
        assert [device.id for device in accelerator.detect(inner)] == [found[1].id], "an index counts what is visible"

    def test_a_share_shows_its_device(self) -> None:
        for device in self.detected():
            variables = self._isolate([device.index], 0.25)
            if self.isolates:
                seen = self.accelerator().detect({**self.environment, **variables})
                assert [other.id for other in seen] == [device.id]

    def _isolate(self, chosen: list[int], share: float = 1.0) -> dict[str, str]:
        environment = dict(self.environment)
        variables = self.accelerator().isolate(chosen, dict.fromkeys(chosen, share), environment)
        assert environment == dict(self.environment), "isolate changed the environment that it was given"
        wrong = {name: value for name, value in variables.items() if not isinstance(value, str)}
        assert not wrong, f"environment variables must be strings: {wrong}"
        return variables
