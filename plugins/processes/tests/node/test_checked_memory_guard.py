"""A memory guard that fails is named once, and the kernel's own takes its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.conformance.memory_guard import MemoryGuardConformance
from kernel.defaults.memory_guard import LocalMemoryGuard
from kernel_processes.node.checked_memory_guard import CheckedMemoryGuard, open_guard
from kernel_spec.ids import ProcessId
from kernel_spec.memory_guards import TASK, EndForMemory, MemoryLimit, MemorySettings, RetireWorker, WorkerMemory

FULL = [MemoryLimit("this machine's memory", 100, 100)]
WORKER = WorkerMemory(ProcessId(b"worker-1"), 1, "work", TASK, 50)
STRANGER = ProcessId(b"stranger")


class TestCheckedMemoryGuard(MemoryGuardConformance):
    @staticmethod
    def make_guard(settings: MemorySettings) -> CheckedMemoryGuard:
        def no_fault(text: str) -> None:
            raise AssertionError(text)

        return CheckedMemoryGuard(LocalMemoryGuard(settings), "the guard", LocalMemoryGuard(settings), no_fault)


class Fragile(LocalMemoryGuard):
    """Answers as a test says; raises what is an exception."""

    name = "fragile"

    def __init__(self, **answers: Any) -> None:
        super().__init__(MemorySettings("node"))
        self._answers = answers

    def _answer(self, method: str, otherwise: Any) -> Any:
        answer = self._answers.get(method, otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def is_bound(self, kind: str) -> Any:
        return self._answer("is_bound", False)

    def needs_sizes(self, limits: Any) -> Any:
        return self._answer("needs_sizes", False)

    def sample(self, now: float, limits: Any, workers: Any) -> Any:
        return self._answer("sample", [])

    def wait(self, limits: Any) -> Any:
        return self._answer("wait", 5.0)


def use(guard: CheckedMemoryGuard) -> list[Any]:
    """Do what the watch does."""
    assert guard.is_bound("actor") in (True, False)
    guard.needs_sizes(FULL)
    steps = list(guard.sample(10.0, FULL, [WORKER]))
    assert guard.wait(FULL) > 0
    return steps


def test_a_plugins_guard_is_checked_and_the_kernels_own_is_not() -> None:
    faults: list[str] = []
    settings = MemorySettings("n")

    def opened(guard: LocalMemoryGuard) -> Any:
        manager: Any = SimpleNamespace(make=lambda kind, settings: guard, label=lambda guard: "the guard")
        return open_guard(manager, settings, faults.append)

    own = LocalMemoryGuard(settings)
    assert opened(own) is own
    checked = opened(Fragile(sample=None))
    assert checked.name == "fragile"
    use(checked)
    assert len(faults) == 1 and faults[0].startswith("the guard: its sample() ")


def test_a_guard_that_keeps_its_contract_decides() -> None:
    faults: list[str] = []
    end = EndForMemory(WORKER.id, "crowded out", "it was told to")
    guard = CheckedMemoryGuard(Fragile(sample=[end]), "the guard", LocalMemoryGuard(MemorySettings("n")), faults.append)
    assert (use(guard), faults, guard.name) == ([end], [], "fragile")


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (
            {"is_bound": KeyError("x")},
            "its is_bound() raised KeyError: 'x'; from now on this node has the",
        ),
        ({"needs_sizes": ValueError("x")}, "its needs_sizes() raised ValueError: x"),
        ({"sample": RuntimeError("x")}, "its sample() raised RuntimeError: x"),
        ({"sample": None}, "its sample() raised TypeError"),
        ({"sample": ["end it"]}, "it returned 'end it', neither RetireWorker nor EndForMemory"),
        ({"sample": [RetireWorker(STRANGER)]}, "for a worker that it was not told of"),
        (
            {"sample": [EndForMemory(WORKER.id, "bad luck", "x")]},
            "it returned the fault 'bad luck'; there are 'crowded out', 'out of memory', 'over quota'",
        ),
        ({"wait": 0.0}, "it returned 0.0, no time above 0"),
        ({"wait": "soon"}, "its wait() raised TypeError"),
    ],
)
def test_one_that_fails_is_named_once_and_replaced(answers: dict[str, Any], told: str) -> None:
    faults: list[str] = []
    guard = CheckedMemoryGuard(Fragile(**answers), "the guard", LocalMemoryGuard(MemorySettings("n")), faults.append)
    use(guard)
    steps = [step for now in range(20, 40) for step in guard.sample(now, FULL, [WORKER])]
    assert len(faults) == 1 and faults[0].startswith("the guard: ") and told in faults[0]
    assert steps and all(step.worker == WORKER.id for step in steps), "the kernel's own decides"
