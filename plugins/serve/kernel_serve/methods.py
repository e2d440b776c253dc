"""Decorated methods that keep something for each instance: a queue of requests, or loaded models."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from kernel_serve.errors import DeploymentError

_KEPT_AS = "__kernel_serve_methods__"


class OfInstance:
    """Holds the functions that were made for an instance, in its `__dict__`.

    A copy of the instance begins without functions.
    """

    def __init__(self, owner: Any = None) -> None:
        self.owner = owner
        self.functions: dict[InstanceMethod, Any] = {}

    def __reduce__(self) -> Any:
        return OfInstance, ()


class InstanceMethod:
    """Is a method that makes a function for each instance, by `made_for`, when it is first looked up there."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        functools.update_wrapper(self, function)

    def made_for(self, handler: Callable[..., Any]) -> Any:
        """Return the function for the instance that `handler`, the undecorated method, is bound to."""
        raise NotImplementedError

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.of_class
        try:
            kept = instance.__dict__
        except AttributeError:
            raise DeploymentError(
                f"{self.function.__qualname__} keeps something for each instance, so instances need a `__dict__`: "
                f'add "__dict__" to the `__slots__` of {type(instance).__name__}'
            ) from None
        of_instance = kept.get(_KEPT_AS)
        if of_instance is None or of_instance.owner is not instance:
            of_instance = kept[_KEPT_AS] = OfInstance(instance)
        function = of_instance.functions.get(self)
        if function is None:
            function = of_instance.functions[self] = self.made_for(self.function.__get__(instance))
        return function

    @functools.cached_property
    def of_class(self) -> Any:
        """The function that takes the instance as its first argument."""
        if inspect.isasyncgenfunction(self.function) or inspect.isgeneratorfunction(self.function):

            @functools.wraps(self.function)
            async def stream(instance: Any, /, *args: Any, **named: Any) -> AsyncIterator[Any]:
                async for item in self.__get__(instance)(*args, **named):
                    yield item

            return stream

        @functools.wraps(self.function)
        async def call(instance: Any, /, *args: Any, **named: Any) -> Any:
            return await self.__get__(instance)(*args, **named)

        return call

    async def __call__(self, instance: Any, /, *args: Any, **named: Any) -> Any:
        """Call the method of `instance`.

        Decorators above it may call it so, as they see it in the body of the class.
        """
        return await self.__get__(instance)(*args, **named)


def is_method(function: Callable[..., Any]) -> bool:
    """Return whether `function` is a method: its first parameter is named `self`."""
    return next(iter(inspect.signature(function).parameters), "") == "self"
