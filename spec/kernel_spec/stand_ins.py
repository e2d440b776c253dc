"""Replacement of error classes in a process, so that a library can give errors names and bases of its own.

A library that offers the kernel under other names calls `stands_for`; from then on every such error that this process
makes is of the library's class. Errors are pickled as the original class, so that processes without the library can
read them.
"""

from __future__ import annotations

from typing import Any

_MADE_BY_A_PROGRAM = 1 << 9  # a flag of types, Py_TPFLAGS_HEAPTYPE
_chosen: dict[type, type] = {}
_derived: dict[type, type] = {}


def stands_for(error: type[BaseException], cls: type[BaseException]) -> None:
    """Make every new `error` in this process an instance of its subclass `cls`.

    Errors of subclasses of `error` become instances of `cls`, too. This includes the errors of tasks if `error` is
    TaskError, and those of actors' constructors if it is ActorDiedError. Raises TypeError when `cls` is not a subclass
    of `error`.
    """
    if not issubclass(cls, error) or cls is error:
        raise TypeError(f"{cls.__name__} can't stand for {error.__name__}: it is not a subclass of it")
    cls.__reduce__ = lambda self: _reduced_as(error, self)  # type: ignore[method-assign, arg-type]
    _chosen[error] = cls
    _derived.clear()


def forget_stand_ins() -> None:
    """Remove all replacements: errors are of their own classes again."""
    _chosen.clear()
    _derived.clear()


def stand_in(error: type) -> type:
    """Return the class that replaces `error` in this process, or `error` itself."""
    if not _chosen:
        return error
    found = _chosen.get(error) or _derived.get(error)
    if found is None:
        found = _derived[error] = _derive(error)
    return found


def new_error(cls: type, *args: Any, **kwargs: Any) -> Any:
    """Create an error of the class that replaces `cls`, without calling its `__init__`."""
    made: Any = stand_in(cls)
    builtin = made
    while builtin.__flags__ & _MADE_BY_A_PROGRAM:  # the one whose layout it has, which is not always the next in line
        builtin = builtin.__base__
    if issubclass(made, OSError):
        return builtin.__new__(made)  # it would take a second argument for a reason, and the first for a number
    return builtin.__new__(made, *args, **kwargs)


def _derive(error: type) -> type:
    """Return a class for a subclass of replaced classes: a subclass of it and of their replacements."""
    if error in _chosen.values() or not issubclass(error, BaseException):
        return error
    parents = [stand_in(base) for base in error.__bases__]
    new = [parent for parent, base in zip(parents, error.__bases__, strict=True) if parent is not base]
    new = [parent for parent in new if not issubclass(error, parent)]
    if not new:
        return error
    return type(
        error.__name__,
        (*new, error),
        {
            "__module__": error.__module__,
            "__qualname__": error.__qualname__,
            "__doc__": error.__doc__,
            "__reduce__": lambda self: _reduced_as(error, self),
        },
    )


def _reduced_as(error: type, one: BaseException) -> tuple[Any, ...]:
    reduced = error.__reduce__(one)  # type: ignore[call-arg]
    if isinstance(reduced, str):
        return reduced  # type: ignore[return-value]
    made, *parts = reduced
    return (error if made is type(one) else made, *parts)
