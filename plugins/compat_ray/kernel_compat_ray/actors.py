"""Actor classes as Ray's programs use them: kernel's, with the options of all generations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import kernel
from kernel_compat_ray.errors import ActorClassInheritanceException
from kernel_compat_ray.graphs import ClassNode
from kernel_compat_ray.options import translate

__tracebackhide__ = True  # A failed task's lines are the program's.


def method(*args: Any, **options: Any) -> Any:
    """Give an actor's method options, such as `@ray.method(num_returns=2)`; `@ray.method` alone changes nothing."""
    if len(args) == 1 and callable(args[0]) and not options:
        return args[0]
    if args or not options:
        raise TypeError("@ray.method takes options: @ray.method(num_returns=2)")
    translated = translate(options)
    return kernel.method(**translated) if translated else lambda function: function


class ActorClass:
    """Represents a class under `@ray.remote`. Its instances are kernel's actors, their handles kernel's handles."""

    def __init__(self, cls: type, options: Mapping[str, Any], inner: Any = None) -> None:
        if inner is None:
            whole = _with_additions(cls)
            inner = kernel.remote(**translate(options))(whole) if options else kernel.remote(whole)
        self._cls = cls
        self._inner = inner
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__
        self.remote = inner.remote

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._inner(*args, **kwargs)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        try:
            mro: tuple[type] = self._inner.__mro_entries__(bases)
        except TypeError as error:
            raise ActorClassInheritanceException(str(error)) from None
        return mro

    def __getattr__(self, name: str) -> Any:
        """Return what the class itself has: constants, static and class methods."""
        if name == "_inner" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._cls)

    def options(self, **options: Any) -> ActorClass:
        """Return the same class with other options; this one stays as it is."""
        return ActorClass(self._cls, {}, self._inner.options(**translate(options)))

    def _remote(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> ClassNode:
        """Return the actor as a node of a graph, to be made by `execute()`."""
        return ClassNode(self, args, kwargs)

    @property
    def __ray_metadata__(self) -> SimpleNamespace:
        return SimpleNamespace(modified_class=self._cls, class_name=self.__name__)

    def __reduce__(self) -> Any:
        return ActorClass, (self._cls, {}, self._inner)

    def __repr__(self) -> str:
        return repr(self._inner)


def _with_additions(cls: type) -> type:
    """Return the class with the two calls that every actor of Ray answers, under names that a handle may ask for."""
    if hasattr(cls, "_ray_ready"):
        return cls
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_ray_ready": _ray_ready,
        "_ray_call": _ray_call,
    }
    return type(cls)(cls.__name__, (cls,), body)


def _ray_ready(self: Any) -> bool:
    return True


def _ray_call(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(self, *args, **kwargs)
