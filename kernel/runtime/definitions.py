"""Remote functions and classes as the runtime knows them: what to run, and with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel_spec.resources import Amounts


@dataclass(slots=True)
class Shape:
    """What a worker must be for a task to run on it. Tasks of one shape share leases.

    `key` is the shape's identity: two shapes with equal keys are the same.
    """

    wanted: Amounts
    strategy: Any = "DEFAULT"
    hints: Mapping[str, Any] = field(default_factory=dict)
    environment: bytes = b""
    key: bytes = b""

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
    environment: Mapping[str, Any] | None = None
    id: bytes = b""
    blob: bytes = b""
    captured: Any = ()


@dataclass(slots=True)
class CallOptions:
    """Options of one actor method."""

    returns: int = 1
    max_task_retries: int = 0
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    concurrency_group: str = ""
    backpressure: int = 0
    name: str = ""


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
    strategy: Any = "DEFAULT"
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
