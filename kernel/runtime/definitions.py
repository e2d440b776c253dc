"""Definitions of remote functions and classes for the runtime: their code and their options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.placement import PLACEMENT_GROUP
from kernel_spec.resources import Amounts

UNSAID = ""
"""The strategy of a call without one: "DEFAULT", or the placement group of its submitter, if that captures."""


DYNAMIC = -2
"""A number of returns: one reference to a list of references, made while the generator runs."""
STREAMING = -1
"""A number of returns: a stream of references, each readable as soon as it is yielded."""


@dataclass(slots=True)
class Shape:
    """The requirements of a task on its worker. Tasks of one shape share leases.

    `key` is the shape's identity: two shapes with equal keys are the same.
    """

    wanted: Amounts
    strategy: Any = UNSAID
    hints: Mapping[str, Any] = field(default_factory=dict)
    environment: bytes = b""
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        import hashlib

        text = repr((sorted(self.wanted.items()), self.strategy, sorted(self.hints.items()), self.environment))
        self.key = hashlib.blake2b(text.encode(), digest_size=12).digest()


@dataclass(slots=True)
class FunctionDefinition:
    """A function with one set of options. `id` and `blob` are filled when it is first submitted."""

    function: Any
    name: str
    shape: Shape
    returns: int = 1
    max_calls: int = 0
    max_retries: int = 3
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    backpressure: int = 0
    id: bytes = b""
    blob: bytes = b""
    captured: Any = ()
    inside: FunctionDefinition | None = None
    """The same, in the placement group that last captured it."""


@dataclass(slots=True)
class CallOptions:
    """Options of one actor method, and the class that has it, as errors call it."""

    returns: int = 1
    max_task_retries: int = 0
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    concurrency_group: str = ""
    backpressure: int = 0
    name: str = ""
    class_name: str = ""


@dataclass(slots=True)
class ClassDefinition:
    """An actor class. `id` and `blob` are filled when it is first used."""

    cls: type
    name: str
    methods: Mapping[str, Mapping[str, Any]]
    is_async: bool
    id: bytes = b""
    blob: bytes = b""
    captured: Any = ()


@dataclass(slots=True)
class ActorOptions:
    """Options of one actor."""

    wanted: Amounts
    strategy: Any = UNSAID
    hints: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] | None = None
    name: str = ""
    namespace: str = ""
    get_if_exists: bool = False
    detached: bool = False
    max_restarts: int = 0
    max_task_retries: int = 0
    max_concurrency: int = 0
    concurrency_groups: Mapping[str, int] = field(default_factory=dict)
    max_pending_calls: int = -1


def parameter_names(definition: FunctionDefinition | CallOptions) -> Sequence[str]:
    """Return the names of a function's positional parameters, where they can be known."""
    code = getattr(getattr(definition, "function", None), "__code__", None)
    return code.co_varnames[: code.co_argcount] if code is not None else ()


def group_of(strategy: Any) -> Mapping[str, Any] | None:
    """Return the strategy if it names a placement group, which is then where its task or actor runs."""
    return strategy if isinstance(strategy, Mapping) and strategy.get("type") == PLACEMENT_GROUP else None


def captured(group: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the strategy for calls submitted in a placement group: any bundle of it, if it captures; else None."""
    return {**group, "bundle": -1} if group is not None and group.get("capture_child_tasks") else None


def function_inside(function: FunctionDefinition, strategy: Mapping[str, Any]) -> FunctionDefinition:
    """Return a copy of a function without a strategy that has this one. The function must have been exported."""
    known = function.inside
    if known is None or known.shape.strategy != strategy:
        known = function.inside = replace(function, shape=replace(function.shape, strategy=strategy), inside=None)
    return known
