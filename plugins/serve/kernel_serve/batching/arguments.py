"""Combine the arguments of many calls into one call with lists."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_serve.errors import DeploymentError

Arguments = tuple[Any, ...]
"""The value of each parameter of a call, in the order of the signature, defaults filled in."""


class BatchParameters:
    """Describes the parameters of a batched function, without `self`."""

    def __init__(self, function: Callable[..., Any], name: str, is_method: bool) -> None:
        """Raises DeploymentError if `function` can't be called with one list for each parameter."""
        parameters = list(inspect.signature(function).parameters.values())[1 if is_method else 0 :]
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
                raise DeploymentError(
                    f"{name} takes {stars}{parameter.name}, but a batched handler gets one list for "
                    "each of its parameters: name them"
                )
        if not parameters:
            raise DeploymentError(f"{name} takes no argument, but a batched handler gets a list of requests: name one")
        # Without its list the handler would use its default for all: a caller that gives no value means that default.
        self.signature = inspect.Signature(parameters)
        self._positional = sum(parameter.kind != parameter.KEYWORD_ONLY for parameter in parameters)
        self._named = [parameter.name for parameter in parameters[self._positional :]]

    def of_call(self, args: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
        """Return the value of each parameter. Raises TypeError as a call with wrong arguments does."""
        if not named and len(args) == self._positional and not self._named:
            return tuple(args)
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        return (*bound.args, *bound.kwargs.values())

    def of_batch(self, calls: Sequence[Arguments]) -> tuple[list[list[Any]], dict[str, list[Any]]]:
        """Return the positional and the named arguments of the one call that answers `calls`."""
        lists = [list(values) for values in zip(*calls, strict=True)]
        return lists[: self._positional], dict(zip(self._named, lists[self._positional :], strict=True))
