"""Arguments that had other names in earlier releases of Ray Tune."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kernel_compat_ray.deprecation import warn_renamed

CallableT = TypeVar("CallableT", bound=Callable[..., Any])


def takes_older_names(names: Mapping[str, str]) -> Callable[[type], Any]:
    """Let the constructor of a class take arguments under older names as well, with a DeprecationWarning.

    `names` maps each older name to the present one. An argument that is None counts as not given.
    """

    def decorate(kind: type) -> type:
        kind.__init__ = _renaming(kind.__init__, names, lambda arguments: type(arguments[0]).__name__)  # type: ignore[misc]
        return kind

    return decorate


def ignores(*names: str) -> Callable[[type], Any]:
    """Let the constructor of a class take further arguments that have no effect."""
    return translates(lambda named: {name: value for name, value in named.items() if name not in names})


def translates(translate: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[type], Any]:
    """Let the constructor of a class get what `translate` returns, in place of the arguments that are given by name."""

    def decorate(kind: type) -> type:
        plain: Any = kind.__init__  # type: ignore[misc]

        @functools.wraps(plain)
        def call(*arguments: Any, **named: Any) -> None:
            plain(*arguments, **translate(named))

        kind.__init__ = call  # type: ignore[misc]
        return kind

    return decorate


def with_older_names(function: CallableT, names: Mapping[str, str]) -> CallableT:
    """Return the function with arguments under older names as well; `names` is as in `takes_older_names`."""
    return _renaming(function, names, lambda arguments: f"{function.__name__}()")


def _renaming(function: Any, names: Mapping[str, str], owner: Callable[[tuple[Any, ...]], str]) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        for old in [name for name in named if name in names]:
            value = named.pop(old)
            if value is not None:
                warn_renamed(f"{old} of {owner(arguments)}", names[old])
                named[names[old]] = value
        return function(*arguments, **named)

    return call
