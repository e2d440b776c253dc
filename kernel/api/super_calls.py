"""Support `super(A, self)` in methods of a decorated class A, where `A` is the actor class rather than a type."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

_super = super


class ActorSuper(super):  # type: ignore[misc]
    """A `super` that accepts an actor class in place of its class. Without arguments it is Python's own."""

    def __new__(cls, *arguments: Any) -> Any:
        """Return the result of `super`, for the class of the object that has the actor class's name and module."""
        if not arguments or isinstance(arguments[0], type):
            return _super.__new__(cls, *arguments)
        named, *others = arguments
        first = others[0] if others else None
        bases = (first if isinstance(first, type) else type(first)).__mro__
        own = [base for base in bases if _place(base) == _place(named)]
        return _super(own[-1] if own else named, *others)


def _place(cls: Any) -> tuple[Any, Any]:
    return getattr(cls, "__module__", None), getattr(cls, "__name__", None)


def mend_super(cls: type) -> None:
    """Give the methods of `cls` that use its name with `super` an `ActorSuper`, as the name means the actor class."""
    for base in cls.__mro__:
        if base.__name__ == cls.__name__:
            for function in _functions(base):
                code = function.__code__
                if "super" in code.co_names and cls.__name__ in (*code.co_names, *code.co_freevars):
                    function.__globals__.setdefault("super", ActorSuper)


def _functions(cls: type) -> Iterator[FunctionType]:
    for member in vars(cls).values():
        if isinstance(member, property):
            found = [member.fget, member.fset, member.fdel]
        else:
            found = [inspect.unwrap(getattr(member, "__func__", member))]
        yield from (function for function in found if isinstance(function, FunctionType))
