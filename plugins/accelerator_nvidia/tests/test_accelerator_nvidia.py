"""NVIDIA GPUs, with a driver that is played and with the one of the machine, if there is one."""

from __future__ import annotations

import logging
import shutil
import sys
from types import ModuleType, SimpleNamespace

import pluggy
import pytest
from kernel_accelerator_nvidia import NvidiaAccelerator, plugin
from kernel_accelerator_nvidia.visible import visible_names

from kernel.conformance.accelerator import AcceleratorConformance
from kernel_spec import hooks
from kernel_spec.accelerators import Device

UUIDS = ["GPU-8f1c0000", "GPU-8f2d0000", "GPU-aa3e0000", "GPU-bb4f0000"]
MIGS = {"MIG-11110000": "H100 MIG 1g", "MIG-22220000": "H100 MIG 2g"}


class FakeNvml(ModuleType):
    """The part of pynvml that is used, with four GPUs and two MIG instances."""

    class NVMLError(Exception):
        pass

    def __init__(self, broken: int | None = None, silent_memory: bool = False, as_bytes: bool = False) -> None:
        super().__init__("pynvml")
        self.open = 0
        self._broken, self._silent_memory, self._as_bytes = broken, silent_memory, as_bytes

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(UUIDS)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index == self._broken:
            raise self.NVMLError("GPU is lost")
        return UUIDS[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in MIGS:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetUUID(self, handle: str) -> str | bytes:
        return handle.encode() if self._as_bytes else handle

    def nvmlDeviceGetName(self, handle: str) -> str:
        return MIGS.get(handle, "H100")

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:
        if self._silent_memory:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(total=80 << 30)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.mark.usefixtures("nvml")
class TestFour(AcceleratorConformance):
    make_accelerator = staticmethod(NvidiaAccelerator)
    least_devices = 4


@pytest.mark.usefixtures("nvml")
class TestRestricted(AcceleratorConformance):
    make_accelerator = staticmethod(NvidiaAccelerator)
    environment = {"CUDA_VISIBLE_DEVICES": "3,GPU-8f2d,MIG-11110000"}
    least_devices = 3


class TestThisMachine(AcceleratorConformance):
    make_accelerator = staticmethod(NvidiaAccelerator)


def detect(value: str | None = None) -> list[str]:
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    return [device.id for device in NvidiaAccelerator().detect(environment)]


def test_all_devices_with_model_and_memory(nvml: FakeNvml) -> None:
    found = NvidiaAccelerator().detect({})
    assert found[1] == Device(1, UUIDS[1], "H100", 80 << 30)
    assert len(found) == 4
    assert nvml.open == 0, "NVML was left open"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2,0", [UUIDS[2], UUIDS[0]]),
        (" 1 , 3 ", [UUIDS[1], UUIDS[3]]),
        ("0,-1,1", [UUIDS[0]]),
        ("0,,1", [UUIDS[0]]),
        ("1,9,0", [UUIDS[1]]),
        ("1,1,0", [UUIDS[1], UUIDS[0]]),
        ("GPU-aa3e0000,0", [UUIDS[2], UUIDS[0]]),
        ("GPU-aa", [UUIDS[2]]),
        ("GPU-8f", []),  # two begin so
        ("GPU-none,0", []),
        ("MIG-22220000,MIG-11110000", ["MIG-22220000", "MIG-11110000"]),
        ("MIG-33330000,0", []),
        (f"MIG-{UUIDS[2]}/1/0", [f"MIG-{UUIDS[2]}/1/0"]),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(nvml: FakeNvml, value: str, expected: list[str]) -> None:
    assert detect(value) == expected


def test_a_restriction_renumbers_from_zero(nvml: FakeNvml) -> None:
    found = NvidiaAccelerator().detect({"CUDA_VISIBLE_DEVICES": "3,1"})
    assert [(device.index, device.id) for device in found] == [(0, UUIDS[3]), (1, UUIDS[1])]


def test_devices_after_a_broken_one_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(broken=2))
    assert detect() == UUIDS[:2]
    ((_, level, said),) = caplog.record_tuples
    assert level == logging.WARNING and said.endswith("GPU 2 does not answer: GPU is lost")


def test_memory_that_is_not_told_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(silent_memory=True))
    assert {device.memory for device in NvidiaAccelerator().detect({})} == {0}


def test_older_libraries_answer_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(as_bytes=True))
    assert detect("GPU-aa") == [UUIDS[2]]


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with caplog.at_level(logging.DEBUG):
        assert detect() == detect("0") == []
    assert {level for _, level, _ in caplog.record_tuples} == {logging.DEBUG}
    assert all("no NVIDIA GPU found" in said for said in caplog.messages)


@pytest.mark.parametrize("problem", [OSError("libnvidia-ml.so.1"), RuntimeError("Driver/library version mismatch")])
def test_without_a_driver_there_is_none(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, problem: Exception
) -> None:
    def fail() -> None:
        raise problem

    monkeypatch.setattr(nvml, "nvmlInit", fail)
    with caplog.at_level(logging.DEBUG):
        assert detect() == []
    ((_, level, said),) = caplog.record_tuples
    assert str(problem) in said and level == logging.DEBUG


def test_a_machine_without_a_driver_does_not_load_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setattr("ctypes.CDLL", missing)
    assert detect() == []
    assert "pynvml" not in sys.modules


def test_this_machine_answers_without_a_fake() -> None:
    present = shutil.which("nvidia-smi") is not None
    assert bool(detect()) <= present, "GPUs were found on a machine without the driver's tools"
    assert detect("") == detect("-1") == []


def test_nothing_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert detect() == []
    assert capsys.readouterr().out == ""


def isolate(devices: list[int], share: float = 1.0, **environment: str) -> dict[str, str]:
    return NvidiaAccelerator().isolate(devices, dict.fromkeys(devices, share), environment)


def test_isolation_by_index_fixes_the_order() -> None:
    assert isolate([2, 0]) == {"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_isolation_uses_the_names_that_the_worker_has() -> None:
    names = "GPU-aa3e0000,MIG-11110000,7"
    assert isolate([2, 1], CUDA_VISIBLE_DEVICES=names) == {"CUDA_VISIBLE_DEVICES": "7,MIG-11110000"}


def test_work_without_devices_sees_what_it_saw() -> None:
    assert isolate([]) == isolate([], CUDA_VISIBLE_DEVICES="0,1") == isolate([], CUDA_VISIBLE_DEVICES="") == {}


def test_a_share_is_told_and_with_mps_fenced() -> None:
    assert isolate([0], 0.25)["KERNEL_GPU_SHARE"] == "0.25"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in isolate([0], 0.25)
    assert "KERNEL_GPU_SHARE" not in isolate([0, 1])
    pipe = "/tmp/nvidia-mps"
    assert isolate([0], 0.25, CUDA_MPS_PIPE_DIRECTORY=pipe)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert isolate([0], 0.001, CUDA_MPS_PIPE_DIRECTORY=pipe)["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"
    for limit, expected in (("10", "10"), ("90", "25"), ("much", "25")):
        variables = isolate([0], 0.25, CUDA_MPS_PIPE_DIRECTORY=pipe, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=limit)
        assert variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == expected


def test_a_device_that_the_worker_can_not_see_is_refused() -> None:
    with pytest.raises(
        ValueError, match="GPU 2 was assigned, but CUDA_VISIBLE_DEVICES='0,1' of this worker names only 2"
    ):
        isolate([2], CUDA_VISIBLE_DEVICES="0,1")


def test_an_unset_variable_names_everything() -> None:
    assert visible_names({}) is None


def test_offers_itself_and_imports_nothing_heavy() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    (offered,) = manager.hook.kernel_accelerators()
    assert [accelerator.resource for accelerator in offered] == ["GPU"]
    assert manager.hook.kernel_contracts() == [{"accelerator": 1}]
    assert not hasattr(plugin, "pynvml")
