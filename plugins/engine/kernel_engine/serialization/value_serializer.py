"""Convert values to bytes and back: the default serializer, and the chain of serializer plugins around it.

`ValueSerializer.dumps` is on the path of every task's arguments and result, so it takes the cheapest way that is
correct. Plain pickle is quick, but would send definitions of a program's `__main__` by name, which no other process can
look up; so plain pickle is used only for values that are provably made of atoms (and numpy arrays of them), after a
bounded check. Everything else goes through `value_pickler`, which sends such definitions by value.

Buffers stay outside the head, uncopied, and come back read-only. A value that is one small array or bytes object is
cheaper whole, inside the head.

A head that begins with the opcode of a pickle is a pickle. A head that begins with `ENCODED` went through `encode` of
the plugins whose names follow.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

from kernel.runtime.critical_sections import is_from_outside
from kernel.runtime.in_progress import current_load, in_progress, note_reference
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.serialization.array_headers import offers_buffer, pickle_inside, pickle_outside
from kernel_spec.errors import ContractError, KernelError, OptionError, PluginError, SerializationError
from kernel_spec.serialization import Buffer, Payload, Reducer, Serializer, SerializerBase

if TYPE_CHECKING:
    from kernel_engine.serialization.value_pickler import ValuePickler

__all__ = ["Dumped", "ValueSerializer", "current_load", "note_reference", "register_reference_type"]

PROTOCOL = 5
OUT_OF_BAND_BYTES = 4096
ENCODED = 0x4B
_PICKLE_OPCODE = 0x80
_LOOK_LIMIT = 64
_LOOK_DEPTH = 4

Dumped = tuple[bytes, Sequence[Buffer], Sequence[Any]]

_dumps = pickle.dumps
_loads = pickle.loads
_NOTHING: tuple[Any, ...] = ()
_ATOMS = frozenset({NoneType, bool, int, float, str, bytes})
_NONE: Dumped = (_dumps(None, PROTOCOL), _NOTHING, _NOTHING)


# -- what plain pickle may have ------------------------------------------------------------------------------------

_UNKNOWN, _ATOM, _SEQUENCE, _MAPPING, _ARRAY, _REFERENCE, _OTHER = range(7)
_kinds: dict[type, int] = {cls: _ATOM for cls in (*_ATOMS, complex)}
_PLAIN_NAMES = frozenset({"builtins.complex"})
"""Types that count as plain, but may have a reducer: pickle asks for one, unlike for those of _ATOMS."""
_kinds |= {tuple: _SEQUENCE, list: _SEQUENCE, dict: _MAPPING}
# Plain numbers, booleans, text and times; not objects, records or numpy's open-ended string types.
_ARRAY_KINDS = frozenset("biufcSUmM")
_BUFFERS, _REFERENCES, _NOT_PLAIN = 1, 2, 4


def register_reference_type(cls: type) -> None:
    """Let values of exactly `cls` through plain pickle, for speed.

    Its `__reduce__` must call `note_reference` and return only importable functions and atoms.
    """
    _kinds[cls] = _REFERENCE


register_reference_type(ObjectRef)


def _learn_kind(cls: type) -> int:
    """Classify a type met for the first time. Only numpy's own number types join the plain ones."""
    kind = _OTHER
    if cls.__module__ == "numpy" and (numpy := sys.modules.get("numpy")) is not None:
        if cls is numpy.ndarray:
            kind = _ARRAY
        elif issubclass(cls, (numpy.number, numpy.bool_)):
            kind = _ATOM
    if kind != _OTHER:
        _kinds[cls] = kind
    return kind


def _is_plain_array(array: Any) -> bool:
    dtype = array.dtype
    return dtype.kind in _ARRAY_KINDS and dtype.metadata is None


def _look(items: Any, depth: int) -> int:
    """Return flags of what `items` and everything inside them are made of; `_NOT_PLAIN` if anything is uncertain."""
    flags = 0
    for item in items:
        cls = type(item)
        kind = _kinds.get(cls) or _learn_kind(cls)
        if kind == _ATOM:
            continue
        if kind == _SEQUENCE:
            if item:
                if depth == 0 or len(item) > _LOOK_LIMIT:
                    return _NOT_PLAIN
                flags |= _look(item, depth - 1)
        elif kind == _MAPPING:
            if item:
                if depth == 0 or len(item) > _LOOK_LIMIT:
                    return _NOT_PLAIN
                flags |= _look(item, 0) | _look(item.values(), depth - 1)
        elif kind == _ARRAY:
            if not _is_plain_array(item):
                return _NOT_PLAIN
            if not offers_buffer(item):
                return _NOT_PLAIN
            flags |= _BUFFERS
        elif kind == _REFERENCE:
            flags |= _REFERENCES
        else:
            return _NOT_PLAIN
        if flags >= _NOT_PLAIN:
            return _NOT_PLAIN
    return flags


def _collector(buffers: list[Buffer]) -> Callable[[pickle.PickleBuffer], None]:
    """Return pickle's buffer callback that keeps them in `buffers`."""

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(buffer.raw())

    return keep


def _template(rebuild: type) -> bytes:
    """Return the head that makes one `rebuild` out of one out-of-band buffer."""

    class Template:
        def __reduce__(self) -> tuple[Any, ...]:
            return rebuild, (pickle.PickleBuffer(b""),)

    return _dumps(Template(), PROTOCOL, buffer_callback=lambda _: False)


_BYTES_HEAD = _template(bytes)


# -- the serializer ------------------------------------------------------------------------------------------------


class ValueSerializer:
    """Serializes values for other processes of the session, with the selected plugins.

    Any thread may call it at any time. `plugins` are in the order in which they were selected.
    Raises `ContractError` when two plugins have one name.
    """

    def __init__(self, plugins: Sequence[Serializer] = ()) -> None:
        self._plugins = tuple(plugins)
        self._by_name = {plugin.name: plugin for plugin in self._plugins}
        if len(self._by_name) != len(self._plugins):
            names = [plugin.name for plugin in self._plugins]
            raise ContractError(f"two serializers have the same name: {', '.join(names)}. Select each only once.")
        self._reducers: dict[str, Reducer] = {}
        for plugin in reversed(self._plugins):
            self._reducers.update(_checked_reducers(plugin))
        self._registered: dict[type, Reducer] = {}
        self._encoders = tuple(plugin for plugin in self._plugins if _encodes(plugin))
        self._pickler_class: type[ValuePickler] | None = None
        # Type to reducer (None: pickle's own), filled as types occur.
        self._known: dict[type, Reducer | None] = {}
        self._look_inside = self._may_look_inside()
        if self._encoders:
            self.dumps = self._dumps_encoded  # type: ignore[method-assign]

    # -- to bytes --

    def dumps(self, value: Any, describe: Callable[[Exception], SerializationError] | None = None) -> Dumped:
        """Return head, out-of-band buffers, and the references met, in the order in which they were met.

        The buffers are views of the value's own memory: take what you need before the value changes.
        `describe` makes the error when pickling fails, for callers that know a better name than "value" (see
        `unpicklable`); it is not called for errors of the kernel itself. Raises `SerializationError`.
        """
        if value is None:
            return _NONE
        cls = type(value)
        if cls in _ATOMS:
            if cls is bytes and len(value) >= OUT_OF_BAND_BYTES:
                return _BYTES_HEAD, [memoryview(value)], _NOTHING
            return _dumps(value, PROTOCOL), _NOTHING, _NOTHING
        if self._look_inside:
            if cls is tuple and len(value) <= _LOOK_LIMIT and _ATOMS.issuperset(map(type, value)):
                return _dumps(value, PROTOCOL), _NOTHING, _NOTHING
            if _kinds.get(cls) == _ARRAY and _is_plain_array(value):
                if value.nbytes < OUT_OF_BAND_BYTES:
                    if value.nbytes and (inside := pickle_inside(value)) is not None:
                        return inside, _NOTHING, _NOTHING
                elif (outside := pickle_outside(value)) is not None:
                    return outside[0], [outside[1]], _NOTHING
            flags = _look((value,), _LOOK_DEPTH)
            if flags == 0:
                return _dumps(value, PROTOCOL), _NOTHING, _NOTHING
            if flags == _BUFFERS:
                buffers: list[Buffer] = []
                return _dumps(value, PROTOCOL, buffer_callback=_collector(buffers)), buffers, _NOTHING
            if flags < _NOT_PLAIN:
                return self._dumps_capturing(value, self._plain, describe)
        return self._dumps_capturing(value, self._pickle, describe)

    def dumps_function(self, function: Any) -> tuple[bytes, Sequence[Any]]:
        """Return `function` (or class) as bytes, and the references that it closes over.

        By reference when it can be imported, by value when it is local or belongs to `__main__`.
        Says so when it is large for what it takes along. Raises `SerializationError`, also when that is too much.
        """
        from kernel_engine.serialization import captures

        def describe(error: Exception) -> SerializationError:
            from kernel_engine.serialization.unpicklable import explain

            if isinstance(error, captures.CapturesTooLargeError):
                return captures.too_large(function, self)

            name = getattr(function, "__name__", None) or type(function).__name__
            kind = "class" if isinstance(function, type) else "function"
            return explain(function, f"{kind} {name}", error, name=name, serializer=self)

        head, _, references = self._dumps_capturing(function, self._pickle_in_band, describe)
        if len(head) >= captures.WARN_BYTES:
            captures.warn_of(function, len(head), self)
        return head, references

    def _dumps_capturing(
        self,
        value: Any,
        write: Callable[[Any, list[Buffer]], bytes],
        describe: Callable[[Exception], SerializationError] | None,
    ) -> Dumped:
        """Run `write` with a fresh list for `note_reference`, and turn its errors into ours."""
        buffers: list[Buffer] = []
        captured: list[Any] = []
        before = in_progress.captured
        in_progress.captured = captured
        try:
            head = write(value, buffers)
        except (KernelError, MemoryError):
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            raise self._explained(value, error, describe) from None
        finally:
            in_progress.captured = before
        return head, buffers, captured or _NOTHING

    def _plain(self, value: Any, buffers: list[Buffer]) -> bytes:
        return _dumps(value, PROTOCOL, buffer_callback=_collector(buffers))

    def _pickle(self, value: Any, buffers: list[Buffer]) -> bytes:
        return (self._pickler_class or self._load_pickler()).dump_to_bytes(value, self, _collector(buffers))

    def _pickle_in_band(self, value: Any, buffers: list[Buffer]) -> bytes:
        from kernel_engine.serialization.captures import pickle_bounded

        return pickle_bounded(value, self)

    def _load_pickler(self) -> type[ValuePickler]:
        from kernel_engine.serialization.value_pickler import ValuePickler

        self._pickler_class = ValuePickler
        return ValuePickler

    def _explained(
        self, value: Any, error: Exception, describe: Callable[[Exception], SerializationError] | None
    ) -> SerializationError:
        from kernel_engine.serialization.unpicklable import explain

        explained = describe(error) if describe is not None else explain(value, "value", error, serializer=self)
        explained.__cause__ = None
        return explained

    def _dumps_encoded(self, value: Any, describe: Callable[[Exception], SerializationError] | None = None) -> Dumped:
        """Return the value as `dumps` gives it, encoded by each plugin in order."""
        head, buffers, references = ValueSerializer.dumps(self, value, describe)
        payload = before = Payload(head, list(buffers))
        names: list[str] = []
        for plugin in self._encoders:
            try:
                changed = plugin.encode(payload)
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise SerializationError(
                    _told(f"the serializer plugin {plugin.name!r} failed in encode()", error)
                ) from error
            if type(changed) is not Payload:
                raise SerializationError(
                    f"encode() of the serializer plugin {plugin.name!r} must return a Payload, not {changed!r:.100}"
                )
            if changed is not payload:
                names.append(plugin.name)
                payload = changed
        if payload is before:
            return head, buffers, references
        return _mark(names) + payload.head, payload.buffers, references

    # -- from bytes --

    def loads(self, head: Buffer, buffers: Sequence[Buffer] = (), context: Any = None) -> Any:
        """Return the value. Arrays are made on top of `buffers` without a copy, and share their being read-only.

        `context` is what `current_load()` returns meanwhile. Raises `SerializationError` when a plugin that encoded
        the payload is missing here or can't undo it; what rebuilding the value itself raises, as it is.
        """
        if not head or head[0] != _PICKLE_OPCODE:
            return self._loads_encoded(head, buffers, context)
        if context is None:
            return _loads(head, buffers=buffers)
        before = in_progress.context
        in_progress.context = context
        try:
            return _loads(head, buffers=buffers)
        finally:
            in_progress.context = before

    def _loads_encoded(self, head: Buffer, buffers: Sequence[Buffer], context: Any) -> Any:
        names, inner = _unmark(head)
        inner, buffers = self._decoded(names, inner, buffers)
        try:
            if not inner or inner[0] != _PICKLE_OPCODE:
                raise pickle.UnpicklingError("it does not begin like one")
            return self.loads(inner, buffers, context)
        except pickle.UnpicklingError as error:
            raise SerializationError(
                f"what the serializer {' after '.join(map(repr, names))} decoded is no value ({error}): the bytes are "
                "damaged, or it was told something else, such as another key, when the value was sent"
            ) from error

    def _decoded(self, names: Sequence[str], inner: bytes, buffers: Sequence[Buffer]) -> tuple[bytes, Sequence[Buffer]]:
        for name in reversed(names):
            plugin = self._by_name.get(name)
            if plugin is None:
                here = ", ".join(self._by_name) or "none"
                raise SerializationError(
                    f"this value was encoded by the serializer plugin {name!r}, which this process does not have "
                    f"(it has: {here}). Select the same serializers in every process of the session."
                )
            try:
                payload = plugin.decode(inner, buffers)
                if type(payload) is not Payload:
                    raise TypeError(f"decode() must return a Payload, not {payload!r:.100}")
                inner, buffers = payload.head, payload.buffers
            except Exception as error:
                if is_from_outside(error):
                    raise
                raise SerializationError(
                    _told(f"the serializer plugin {name!r} can't undo its encoding", error)
                ) from error
        return inner, buffers

    # -- classes that the user takes care of --

    def register(self, cls: type, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
        """Send values of exactly `cls` as `serializer(value)`, rebuilt by `deserializer` wherever they arrive.

        Only this process needs to register: the deserializer travels with each value.
        Raises `OptionError` for a class that pickle handles before anybody is asked.
        """
        if not isinstance(cls, type) or cls in _NATIVE or issubclass(cls, type):
            shown = getattr(cls, "__name__", repr(cls))
            raise OptionError(
                f"can't register a serializer for {shown}: pickle handles it itself. Register a class of your own."
            )

        def reduce(value: Any) -> tuple[Any, ...]:
            return _deserialize, (deserializer, serializer(value))

        self._registered[cls] = reduce
        self._forget()

    def deregister(self, cls: type) -> None:
        """Undo `register`; nothing happens when `cls` is not registered."""
        self._registered.pop(cls, None)
        self._forget()

    def reducer_for(self, cls: type) -> Reducer | None:
        """Return how values of exactly `cls` are reduced, None for pickle's own way."""
        found = self._registered.get(cls)
        return found if found is not None else self._reducers.get(f"{cls.__module__}.{cls.__qualname__}")

    def _forget(self) -> None:
        """Replace what was learnt about types; picklers at work keep the table that they began with."""
        self._known = {}
        self._look_inside = self._may_look_inside()

    def _may_look_inside(self) -> bool:
        """Return whether no type that would be taken for plain has a reducer."""
        names = (*self._reducers, *(f"{cls.__module__}.{cls.__qualname__}" for cls in self._registered))
        return not any(name.startswith("numpy.") or name in _PLAIN_NAMES for name in names)


_NATIVE = frozenset({*_ATOMS, tuple, list, dict, set, frozenset, bytearray})


def _deserialize(deserializer: Callable[[Any], Any], data: Any) -> Any:
    return deserializer(data)


def _checked_reducers(plugin: Serializer) -> Mapping[str, Reducer]:
    try:
        reducers = plugin.reducers()
    except Exception as error:
        from kernel.plugin_faults import told  # Only a fault needs it.

        raise PluginError(told(f"reducers() of the serializer plugin {plugin.name!r}", error)) from error
    if not isinstance(reducers, Mapping):
        raise ContractError(
            f"reducers() of the serializer plugin {plugin.name!r} must return a mapping, not {reducers!r}."
        )
    for name, reducer in reducers.items():
        if not isinstance(name, str) or not callable(reducer):
            raise ContractError(
                f"reducers() of the serializer plugin {plugin.name!r} must map full type names to functions, "
                f"it has {name!r}: {reducer!r}."
            )
    return {name: _named_reducer(plugin.name, name, reducer) for name, reducer in reducers.items()}


def _named_reducer(plugin: str, name: str, reducer: Reducer) -> Reducer:
    """Return `reducer`, whose errors name the plugin and the type: the value is not to blame for them."""
    what = f"the serializer plugin {plugin!r} failed in its reducer of {name}"

    def reduce(value: Any) -> Any:
        try:
            reduced = reducer(value)
        except KernelError:
            raise
        except Exception as error:
            if is_from_outside(error):
                raise
            raise SerializationError(_told(what, error)) from error
        if not isinstance(reduced, (tuple, str)):
            raise SerializationError(f"{what}: it returned {reduced!r:.100}, not what __reduce_ex__ returns")
        return reduced

    return reduce


def _told(what: str, error: Exception) -> str:
    from kernel.plugin_faults import lines_of, summary  # Only a fault needs it.

    return f"{what}: {summary(error)}{lines_of(error)}"


def _encodes(plugin: Serializer) -> bool:
    """Say whether `encode` can change anything (a plugin that only reduces need not cost a call per value)."""
    return type(plugin).encode is not SerializerBase.encode


def _mark(names: Sequence[str]) -> bytes:
    encoded = [name.encode() for name in names]
    return bytes([ENCODED, len(encoded)]) + b"".join(bytes([len(name)]) + name for name in encoded)


def _unmark(head: Buffer) -> tuple[list[str], bytes]:
    data = bytes(head)
    try:
        if data[0] != ENCODED:
            raise ValueError(f"it begins with {data[:4].hex(' ')}")
        names, at = [], 2
        for _ in range(data[1]):
            end = at + 1 + data[at]
            names.append(data[at + 1 : end].decode())
            at = end
    except (IndexError, ValueError) as error:
        text = f"these {len(data)} bytes are not a value that a kernel serialized ({error or 'they end too early'})."
        raise SerializationError(text) from None
    return names, data[at:]
