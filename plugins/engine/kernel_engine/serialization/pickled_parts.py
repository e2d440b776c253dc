"""Find the parts of a value that pickle would visit next, each with the Python expression that reaches it."""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import types
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from kernel.runtime.in_progress import Capture

if TYPE_CHECKING:
    from kernel_engine.serialization.value_pickler import ReducerSource

Part = tuple[str, Any]

_ATOMS = frozenset(
    {types.NoneType, bool, int, float, complex, str, bytes, bytearray, pickle.PickleBuffer}
    | {type(Ellipsis), type(NotImplemented)}
)
_ITEM_LIMIT = 5000
_KEY_LIMIT = 60


def attempt(value: Any, serializer: ReducerSource | None) -> Exception | None:
    """Return the error that pickling `value` alone raises, None if it works."""
    try:
        with Capture():
            _pickler(serializer).dump(value)
    except Exception as error:
        return error
    return None


def parts_of(value: Any, path: str, serializer: ReducerSource | None) -> Iterable[Part]:
    """Return what `value` is made of. Raises what pickle would raise for `value` itself."""
    cls = type(value)
    if cls in _ATOMS:
        return ()
    if cls in (list, tuple):
        return [(f"{path}[{index}]", item) for index, item in enumerate(islice(value, _ITEM_LIMIT))]
    if cls in (set, frozenset):
        return [(f"list({path})[{index}]", item) for index, item in enumerate(islice(value, _ITEM_LIMIT))]
    if cls is dict:
        return list(_dict_parts(value, path))
    with Capture():
        reduced = _reduce(value, _pickler(serializer))
    if reduced is None:
        return ()
    if isinstance(value, types.FunctionType):
        return list(_function_parts(reduced, path))
    if isinstance(value, type):
        return list(_class_parts(value, path))
    if isinstance(value, types.MethodType):
        return [(f"{path}.__self__", value.__self__), (f"{path}.__func__", value.__func__)]
    if isinstance(value, functools.partial):
        state = [(f"{path}.func", value.func), (f"{path}.args", value.args), (f"{path}.keywords", value.keywords)]
        return state + [(f"{path}.{name}", item) for name, item in vars(value).items()]
    return list(_reduced_parts(value, reduced, path))


def _pickler(serializer: ReducerSource | None) -> Any:
    from kernel_engine.serialization.value_pickler import NoReducers, ValuePickler

    return ValuePickler(io.BytesIO(), serializer or NoReducers(), lambda _: False)


def _reduce(value: Any, pickler: Any) -> tuple[Any, ...] | None:
    """Return what pickle makes of `value`, None when it goes by its name. Raises as pickle would."""
    reduced = pickler.reducer_override(value)
    if reduced is NotImplemented:
        if isinstance(value, (type, types.FunctionType)):
            pickle.dumps(value, 5)
            return None
        try:
            reduce = pickler.dispatch_table[type(value)]
        except KeyError:
            reduced = value.__reduce_ex__(5)
        else:
            reduced = reduce(value)
    if isinstance(reduced, str):
        pickle.dumps(value, 5)
        return None
    if not isinstance(reduced, tuple) or not 2 <= len(reduced) <= 6:
        raise pickle.PicklingError(f"__reduce__ must return a string or a tuple of 2 to 6, not {reduced!r:.80}")
    return reduced


def _dict_parts(value: dict[Any, Any], path: str) -> Iterator[Part]:
    for index, (key, item) in enumerate(islice(value.items(), _ITEM_LIMIT)):
        yield f"{path}[{_key(key)}]", item
        if type(key) not in _ATOMS:
            yield f"list({path})[{index}]", key


def _key(key: Any) -> str:
    if type(key) is str:
        return '"' + key[:_KEY_LIMIT].replace("\\", "\\\\").replace('"', '\\"') + '"'
    try:
        return repr(key)[:_KEY_LIMIT]
    except Exception:
        return f"<{type(key).__qualname__}>"


def _function_parts(reduced: tuple[Any, ...], path: str) -> Iterator[Part]:
    """Take apart how cloudpickle sends a function by value: only the globals that it uses are in there."""
    attributes, slots = reduced[2]
    code = reduced[1][0]
    for name, cell in zip(code.co_freevars, slots.get("__closure__") or (), strict=False):
        try:
            yield f'{path}.__closure__["{name}"]', cell.cell_contents
        except ValueError:
            continue
    for name, item in slots.get("__globals__", {}).items():
        yield f'{path}.__globals__["{name}"]', item
    for index, item in enumerate(slots.get("__defaults__") or ()):
        yield f"{path}.__defaults__[{index}]", item
    for field in ("__kwdefaults__", "__annotations__"):
        for name, item in (slots.get(field) or {}).items():
            yield f'{path}.{field}["{name}"]', item
    for name, item in attributes.items():
        yield f"{path}.{name}", item


_LEFT_OUT_OF_CLASSES = frozenset({"__dict__", "__weakref__", "_abc_impl", "__doc__", "__module__", "__qualname__"})


def _class_parts(cls: type, path: str) -> Iterator[Part]:
    for index, base in enumerate(cls.__bases__):
        yield f"{path}.__bases__[{index}]", base
    for name, item in vars(cls).items():
        if name in _LEFT_OUT_OF_CLASSES or isinstance(item, types.MemberDescriptorType):
            continue
        if isinstance(item, (staticmethod, classmethod)):
            item = item.__func__
        yield f"{path}.{name}", item


def _reduced_parts(value: Any, reduced: tuple[Any, ...], path: str) -> Iterator[Part]:
    function, args = reduced[:2]
    state, items, pairs, setter = (*reduced[2:], None, None, None, None)[:4]
    attributes = _attributes(value)
    raw = f"{path}.__reduce_ex__(5)"
    if function not in (copyreg.__newobj__, copyreg.__newobj_ex__, type(value)):  # type: ignore[attr-defined]
        yield f"{raw}[0]", function
    yield from _state_parts(value, state, attributes, path, raw)
    in_args = f"{path}.args" if args is getattr(value, "args", None) else f"{raw}[1]"
    for index, arg in enumerate(args):
        known = f"type({path})" if arg is type(value) else attributes.get(id(arg))
        yield (f"{path}.{known}" if known and arg is not type(value) else known or f"{in_args}[{index}]"), arg
    for index, item in enumerate(islice(items or (), _ITEM_LIMIT)):
        yield f"{path}[{index}]", item
    for key, item in islice(pairs or (), _ITEM_LIMIT):
        yield f"{path}[{_key(key)}]", item
        yield f"list({path})[...]", key
    if setter is not None:
        yield f"{raw}[5]", setter


def _state_parts(value: Any, state: Any, attributes: dict[int, str], path: str, raw: str) -> Iterator[Part]:
    """Name parts of the state by the attribute that holds them, or else by where they are in the state."""
    fields = state if type(state) is tuple and len(state) == 2 else (state,)
    if not all(part is None or type(part) is dict for part in fields):
        if type(state) in (list, tuple):
            for index, item in enumerate(state):
                known = attributes.get(id(item))
                yield (f"{path}.{known}" if known else f"{raw}[2][{index}]"), item
        else:
            known = attributes.get(id(state))
            yield (f"{path}.{known}" if known else f"{raw}[2]"), state
        return
    for part in fields:
        for name, item in (part or {}).items():
            same = type(name) is str and attributes.get(id(item)) is not None and _holds(value, name, item)
            yield (f"{path}.{name}" if same else f"{path}.__getstate__()[{_key(name)}]"), item


def _holds(value: Any, name: str, item: Any) -> bool:
    try:
        return object.__getattribute__(value, name) is item
    except AttributeError:
        return False


def _attributes(value: Any) -> dict[int, str]:
    """Return id of the value of each attribute to its name, looking without running the user's code."""
    found: dict[int, str] = {}
    names = list(getattr(type(value), "_fields", ()))
    for kind in type(value).__mro__:
        names += [name for name, item in vars(kind).items() if isinstance(item, types.MemberDescriptorType)]
    for name in names:
        try:
            found.setdefault(id(object.__getattribute__(value, name)), name)
        except AttributeError:
            continue
    for name, item in getattr(value, "__dict__", {}).items():
        found.setdefault(id(item), name)
    return found
