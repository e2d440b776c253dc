"""Large arguments of many tasks, stored once: tasks get references, and read the values where they lie."""

from __future__ import annotations

import threading
from typing import Any

import kernel

LARGE_BYTES = 100_000


class Shared:
    """Stands for a large value in the arguments of a task."""

    __slots__ = ("ref",)

    def __init__(self, ref: kernel.ObjectRef) -> None:
        self.ref = ref


class SharedArguments:
    """Replaces large arrays and tables in joblib's batches, each of them by the same reference every time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: dict[int, tuple[Any, kernel.ObjectRef]] = {}
        """By identity, the value (which keeps that identity its own) and its reference."""

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._stored.clear()

    def replaced(self, batch: Any) -> tuple[Any, list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None]:
        """Return a batch, and its calls with large arguments replaced; None instead of the calls if none is large."""
        items = getattr(batch, "items", None)
        if not isinstance(items, list):
            return batch, None
        calls = [
            (
                function,
                tuple(self._swapped(value) for value in args),
                {name: self._swapped(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in items
        ]
        if not self._stored:
            return batch, None
        light = object.__new__(type(batch))
        light.__dict__.update(batch.__dict__)
        light.items = []
        return light, calls

    def _swapped(self, value: Any) -> Any:
        if size_of(value) >= LARGE_BYTES:
            with self._lock:
                stored = self._stored.get(id(value))
                if stored is None:
                    stored = self._stored[id(value)] = (value, kernel.put(value))
                return Shared(stored[1])
        if type(value) in (list, tuple) and any(size_of(part) >= LARGE_BYTES for part in value):
            return type(value)(self._swapped(part) for part in value)
        return value


def size_of(value: Any) -> int:
    """Return how many bytes of arrays a value holds, as far as can be seen at a glance."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if hasattr(value, "indptr"):  # a sparse matrix
        return int(value.data.nbytes)
    usage = getattr(value, "memory_usage", None)
    if usage is not None and hasattr(value, "columns"):
        return int(usage(deep=False).sum())
    return 0


def run_batch(batch: Any, calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] | None) -> Any:
    """Run a batch in a worker, with what its references stand for."""
    if calls is not None:
        batch.items = [
            (
                function,
                tuple(_original(value) for value in args),
                {name: _original(value) for name, value in kwargs.items()},
            )
            for function, args, kwargs in calls
        ]
    return batch()


def _original(value: Any) -> Any:
    if isinstance(value, Shared):
        return kernel.get(value.ref)
    if type(value) in (list, tuple) and any(isinstance(part, Shared) for part in value):
        return type(value)(_original(part) for part in value)
    return value
