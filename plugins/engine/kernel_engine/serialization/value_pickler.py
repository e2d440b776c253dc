"""The pickler for values that plain pickle can't be trusted with: functions and classes by value, our own reducers.

It is apart from `serialization`, because importing cloudpickle costs as much as the rest of the runtime.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Protocol

import cloudpickle

from kernel.pickling import reduce_code
from kernel_engine.serialization.array_headers import reduce_array
from kernel_engine.serialization.carried_exception import needs_reducer, reduce_exception
from kernel_spec.serialization import Reducer

_PROTOCOL = 5
_KNOWN_LIMIT = 4096


class ReducerSource(Protocol):
    """Provides the reducers of types. `_known` is its cache."""

    _known: dict[type, Reducer | None]

    def reducer_for(self, cls: type) -> Reducer | None: ...


class NoReducers:
    """Provides no reducers, for picklers that add nothing."""

    def __init__(self) -> None:
        self._known: dict[type, Reducer | None] = {}

    def reducer_for(self, cls: type) -> Reducer | None:
        """Return None."""
        return None


class ValuePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles as cloudpickle does, and with the reducers of a `ValueSerializer`."""

    def __init__(
        self, file: io.BytesIO, source: ReducerSource, buffer_callback: Callable[[pickle.PickleBuffer], object] | None
    ) -> None:
        super().__init__(file, _PROTOCOL, buffer_callback)
        self._source = source
        self._known = source._known

    @classmethod
    def dump_to_bytes(
        cls, value: Any, source: ReducerSource, buffer_callback: Callable[[pickle.PickleBuffer], object] | None
    ) -> bytes:
        """Return `value` as a pickle."""
        file = io.BytesIO()
        cls(file, source, buffer_callback).dump(value)
        return file.getvalue()

    def reducer_override(self, value: Any) -> Any:
        """Called by pickle for every value that is not of its own basic types."""
        cls = type(value)
        try:
            reducer = self._known[cls]
        except KeyError:
            reducer = self._learn(cls)
        if reducer is None:
            return NotImplemented
        if reducer is _cloudpickle:
            return super().reducer_override(value)
        return reducer(value)

    def _learn(self, cls: type) -> Reducer | None:
        reducer = self._source.reducer_for(cls)
        if reducer is None and (issubclass(cls, type) or issubclass(cls, FunctionType)):
            reducer = _cloudpickle
        if reducer is None and cls.__name__ == "ndarray" and cls.__module__ == "numpy":
            reducer = reduce_array
        if reducer is None and needs_reducer(cls):
            reducer = reduce_exception
        if len(self._known) >= _KNOWN_LIMIT:
            self._known.clear()
        self._known[cls] = reducer
        return reducer


def _cloudpickle(value: Any) -> tuple[Any, ...]:
    """Stand in the table of reducers for "as cloudpickle does it", which needs the pickler itself."""
    raise AssertionError("never called")


class _DispatchTable(dict[type, Any]):
    """Merges cloudpickle's table and `copyreg`'s into one dict: pickle looks every type up, and a ChainMap is slow."""

    def __missing__(self, cls: type) -> Any:
        return copyreg.dispatch_table[cls]


ValuePickler.dispatch_table = _DispatchTable({**cloudpickle.Pickler._dispatch_table, CodeType: reduce_code})
