"""`super(A, self)` in a method of a decorated class A: there, `A` is the actor class, and Python's own wants a type."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType
from typing import Any

_super = super


class ActorSuper(super):  # type: ignore[misc]
    """`super` that takes an actor class for the class that it was made of. Without arguments it is Python's own."""

    def __new__(cls, *arguments: Any) -> Any:
        """Return what `super` does; the class is looked for by its name and module among those of the object."""
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
    """Let the methods of a class that name it in `super(...)` do so when its name is that of an actor class."""
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
