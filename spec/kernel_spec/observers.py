"""The observer contract: hearing what happens.

Observers run in the node agent, called from its loop thread with batches of events, after the fact. They can't
change anything; one that raises is reported once by name and asked no more. Task and object events are collected
in the processes and delivered in batches about once a second, and only when an observer is installed.

On conflict: a hook (all that answer). On absence events cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """Something happened to a thing.

    `kind` is node, worker, actor, task or object; `state` its new state in the words of `kernel status`; `id` its
    hexadecimal id; `time` seconds since the epoch; `detail` anything else (name, pid, node, cause of death).
    """

    kind: str
    state: str
    id: str
    time: float
    detail: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Observer(Protocol):
    """Hears events. See the module's text."""

    def observe(self, events: Sequence[LifecycleEvent]) -> None:
        """Take note. Must return quickly; hand slow work to a thread of your own."""
        ...
