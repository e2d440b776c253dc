"""Check the answers of a plugin's memory guard, and replace it by the kernel's own after a failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernel.defaults.memory_guard import LocalMemoryGuard
from kernel.plugin_faults import told
from kernel.plugins import PluginManager
from kernel_spec.memory_guards import (
    EndForMemory,
    MemoryGuard,
    MemoryLimit,
    MemorySettings,
    RetireWorker,
    WorkerMemory,
)
from kernel_spec.memory_words import FAULTS

_THEN = "from now on this node has the kernel's own memory guard"


def open_guard(manager: PluginManager, settings: MemorySettings, on_fault: Callable[[str], None]) -> MemoryGuard:
    """Return the memory guard that the session has chosen; checked, unless it is the kernel's own."""
    guard: MemoryGuard = manager.make("memory_guard", settings)
    if type(guard) is LocalMemoryGuard:
        return guard
    return CheckedMemoryGuard(guard, manager.label(guard), LocalMemoryGuard(settings), on_fault)


class CheckedMemoryGuard:
    """Uses `chosen`, which is called `label` in messages, until it raises or returns an invalid answer.

    Then `on_fault(text)` is called, and `substitute` answers that question and all later ones.
    """

    def __init__(
        self, chosen: MemoryGuard, label: str, substitute: MemoryGuard, on_fault: Callable[[str], None]
    ) -> None:
        self.name = chosen.name
        self._guard = chosen
        self._label = label
        self._substitute = substitute
        self._on_fault = on_fault

    def is_bound(self, kind: str) -> bool:
        """See the contract."""
        return bool(self._asked("is_bound", _anything, kind))

    def needs_sizes(self, limits: Sequence[MemoryLimit]) -> bool:
        """See the contract."""
        return bool(self._asked("needs_sizes", _anything, limits))

    def sample(
        self, now: float, limits: Sequence[MemoryLimit], workers: Sequence[WorkerMemory]
    ) -> Sequence[RetireWorker | EndForMemory]:
        """See the contract."""
        known = {worker.id for worker in workers}
        steps: Sequence[RetireWorker | EndForMemory] = self._asked(
            "sample", lambda steps: _check_steps(steps, known), now, limits, workers
        )
        return steps

    def wait(self, limits: Sequence[MemoryLimit]) -> float:
        """See the contract."""
        seconds: float = self._asked("wait", _check_seconds, limits)
        return seconds

    def _asked(self, method: str, check: Callable[[Any], None], *arguments: Any) -> Any:
        try:
            answer = getattr(self._guard, method)(*arguments)
            check(answer)
        except Exception as error:
            if self._guard is self._substitute:
                raise
            self._guard = self._substitute
            self._on_fault(told(f"{self._label}: its {method}()", error, _THEN))
            return self._asked(method, check, *arguments)
        return answer


def _anything(answer: Any) -> None:
    """Accept any answer, which is used as a truth value."""


def _check_steps(steps: Any, known: set[Any]) -> None:
    for step in steps:
        if not isinstance(step, (RetireWorker, EndForMemory)):
            raise TypeError(f"it returned {step!r:.100}, neither RetireWorker nor EndForMemory")
        if step.worker not in known:
            raise ValueError(f"it returned {step!r:.100} for a worker that it was not told of")
        if isinstance(step, EndForMemory) and step.fault not in FAULTS:
            raise ValueError(f"it returned the fault {step.fault!r}; there are {', '.join(map(repr, FAULTS))}")


def _check_seconds(seconds: Any) -> None:
    if not seconds > 0:
        raise ValueError(f"it returned {seconds!r:.100}, no time above 0")
