"""Turn exceptions into bytes and back, without calling `__init__`: type, args, attributes, and the state of C types.

Pickle rebuilds an exception by calling its class with `args`. That fails, or changes the exception, for every class
whose `__init__` takes other arguments than it passes on. So an exception is taken apart instead, unless its class
defines how it is pickled. Only attributes that can't leave their process (a lock, a socket) are left out.
"""

from __future__ import annotations

import contextlib
import copyreg
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

from kernel.runtime.remote_traceback import is_group

_HEAP_TYPE = 1 << 9
_NOT_DATA = frozenset({"__dict__", "__weakref__"})
_READ_ONLY = frozenset({"exceptions", "message"})  # Exception groups have these from args.
_PLACE_OF_MEMBERS = Exception("a member of a group")
_DESCRIPTORS = (type(OSError.filename), type(BaseException.args))

Parts = tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]
"""`args`, `__dict__`, and the values of C members and slots."""


def pack(error: BaseException) -> tuple[bytes | None, list[str]]:
    """Return `error` as bytes that were seen to become an exception again, and what had to stay behind.

    None instead of the bytes when nothing helped. Never raises an `Exception`.
    """
    if _pickles_its_own_way(type(error)):
        data = _dumps_checked(error, error)
        if data is not None:
            return data, []
    try:
        args, attributes, members = take_apart(error)
    except Exception:
        return None, []
    if is_group(error):
        args = (args[0], [_PLACE_OF_MEMBERS])
    data = _dumps_checked((_revive, (type(error), args, attributes, members)), error)
    if data is not None:
        return data, []
    left_behind: list[str] = []
    args = tuple(value if _survives(value) else _shown(value) for value in args)
    attributes = _carried_only(attributes, left_behind)
    members = _carried_only(members, left_behind)
    return _dumps_checked((_revive, (type(error), args, attributes, members)), error), left_behind


def needs_reducer(cls: type) -> bool:
    """Say whether exceptions of `cls` may fail to come back when pickle has its way with them."""
    return issubclass(cls, BaseException) and cls.__module__ != "builtins" and not _pickles_its_own_way(cls)


def reduce_exception(error: BaseException) -> tuple[Any, ...]:
    """Return what `__reduce__` would, for an exception that is a value among others: it comes back as it was."""
    args, attributes, members = take_apart(error)
    notes = error.__dict__.get("__notes__")
    if notes is not None:
        attributes["__notes__"] = notes
    return _revive, (type(error), args, {}, members), attributes or None


def unpack(data: bytes) -> BaseException | None:
    """Return a fresh exception, or None when this process can't make it (its module may be missing here)."""
    try:
        value = pickle.loads(data)
        if isinstance(value, tuple):
            function, arguments = value
            value = function(*arguments)
    except Exception:
        return None
    return value if isinstance(value, BaseException) else None


def take_apart(error: BaseException) -> Parts:
    """Return what makes `error` different from another exception of its class."""
    members = {}
    for name, descriptor in _members(type(error)):
        try:
            value = descriptor.__get__(error)
        except AttributeError:
            continue
        if value is not None:
            members[name] = value
    attributes = {name: value for name, value in error.__dict__.items() if name != "__notes__"}
    return tuple(error.args), attributes, members


def put_together(cls: type[BaseException], parts: Parts) -> BaseException:
    """Return a `cls` with `parts`, running no code of the user's classes. Raises what C constructors raise."""
    args, attributes, members = parts
    bases = [kind for kind in cls.__mro__ if not kind.__flags__ & _HEAP_TYPE and kind is not object]
    error = _new(cls, bases, args)
    with contextlib.suppress(TypeError):  # Needed if args were changed after construction; they are set below.
        bases[0].__init__(error, *args)  # type: ignore[misc]
    BaseException.__dict__["args"].__set__(error, args)
    for name, descriptor in _members(cls):
        if name in members:
            try:
                descriptor.__set__(error, members[name])
            except (AttributeError, TypeError):
                continue  # Read-only: the constructor took it from args.
    error.__dict__.update(attributes)
    return error


def _new(cls: type[BaseException], bases: Sequence[type], args: tuple[Any, ...]) -> BaseException:
    """Return an empty `cls`, by the first of `bases` that is fit for its memory layout."""
    for base in bases[:-1]:
        try:
            return base.__new__(cls, *args)  # type: ignore[no-any-return]
        except TypeError:
            continue
    return bases[-1].__new__(cls, *args)  # type: ignore[no-any-return]


def _revive(
    cls: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any], members: dict[str, Any]
) -> BaseException:
    return put_together(cls, (args, attributes, members))


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield name and descriptor of everything that `cls` keeps outside `__dict__`."""
    for kind in cls.__mro__:
        if kind is BaseException or kind is object:
            continue
        skipped = _READ_ONLY if kind.__name__ == "BaseExceptionGroup" else _NOT_DATA
        for name, value in vars(kind).items():
            if isinstance(value, _DESCRIPTORS) and name not in skipped:
                yield name, value


def _pickles_its_own_way(cls: type) -> bool:
    if cls in copyreg.dispatch_table:
        return True
    for name in ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__"):
        owner = next((kind for kind in cls.__mro__ if name in vars(kind)), None)
        if owner is not None and owner.__module__ != "builtins":
            return True
    return False


def _dumps_checked(value: Any, error: BaseException) -> bytes | None:
    """Return `value` as bytes if they become an exception like `error` again."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value, 5)
        again = unpack(data)
        same = again is not None and type(again).__qualname__ == type(error).__qualname__
    except Exception:
        return None
    return data if same else None


def _survives(value: Any) -> bool:
    import cloudpickle

    try:
        pickle.loads(cloudpickle.dumps(value, 5))
    except Exception:
        return False
    return True


def _carried_only(values: dict[str, Any], left_behind: list[str]) -> dict[str, Any]:
    kept = {}
    for name, value in values.items():
        if _survives(value):
            kept[name] = value
        else:
            left_behind.append(f"{name} ({type(value).__module__}.{type(value).__qualname__})")
    return kept


def _shown(value: Any) -> str:
    try:
        return repr(value)[:1000]
    except Exception:
        return f"<{type(value).__qualname__}>"
