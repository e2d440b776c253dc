"""Names of values, such as environments, that all tasks, actors and trials of a program can look up.

A name is known where it was registered, without any session. With a session, the head keeps its value for the program;
a process of that program that does not know a name asks the head.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakSet

import cloudpickle

import kernel
from kernel_runs.errors import RunError
from kernel_spec.errors import OptionError


@dataclass(frozen=True)
class _Unsendable:
    """Is stored in place of a value that can't be pickled."""

    reason: str


class SharedNames:
    """The names of values of one kind."""

    _all: ClassVar[WeakSet[SharedNames]] = WeakSet()

    def __init__(self, kind: str) -> None:
        """Begin without names.

        Args:
            kind: The kind of the values, such as "environment". It appears in messages, and is part of the key at the
            head.
        """
        self.kind = kind
        self.values: dict[str, Any] = {}
        """The values that were registered in this process, by name."""
        self._published: dict[str, str | None] = {}
        """The job for which the head has each registered value; None if it does not have it yet."""
        self._all.add(self)

    def register(self, name: str, value: Any) -> None:
        """Register a value under a name, for all processes of this program. It replaces an earlier value."""
        self.values[name], self._published[name] = value, None
        self.publish()

    def know(self, name: str, value: Any) -> None:
        """Register a value under a name in this process only."""
        self.values[name] = value
        self._published.pop(name, None)

    def publish(self) -> None:
        """Send the values that were registered before the session began to the head. Without a session, do nothing."""
        if not self._published or not kernel.is_initialized():
            return
        job = _job()
        for name in [name for name, known_to in self._published.items() if known_to != job]:
            try:
                _kept().put(f"{self.kind}/{name}", _pickled(self.values[name]))
            except OptionError as error:  # too large
                _kept().put(f"{self.kind}/{name}", _pickled(_Unsendable(str(error))))
            self._published[name] = job

    def find(self, name: str) -> Any:
        """Return the value of a name, or None.

        Raises:
            RunError: If another process of this program registered it, and the value can't be unpickled here.
        """
        if name in self.values or not kernel.is_initialized():
            return self.values.get(name)
        kept = _kept().get(f"{self.kind}/{name}")
        if kept is None:
            return None
        try:
            value = pickle.loads(kept)
        except Exception as error:
            value = _Unsendable(f"{type(error).__name__}: {error}")
        if isinstance(value, _Unsendable):
            raise RunError(
                f"the {self.kind} {name!r} was registered in another process, and can't be loaded in this one: "
                f"{value.reason}. Define it in a module that both can import, or register it in this process as well"
            )
        return value

    def names(self) -> list[str]:
        """Return all names that this process can look up, sorted."""
        beginning = f"{self.kind}/"
        there = _kept().keys(beginning) if kernel.is_initialized() else []
        return sorted({*self.values, *(key.removeprefix(beginning) for key in there)})


def publish_names() -> None:
    """Send all values that were registered before the session began to the head."""
    for names in SharedNames._all:
        names.publish()


def _pickled(value: Any) -> bytes:
    made: bytes
    try:
        made = cloudpickle.dumps(value)
    except Exception as error:  # pickling runs methods of the value
        made = cloudpickle.dumps(_Unsendable(f"it can't be pickled: {type(error).__name__}: {error}"))
    return made


def _job() -> str:
    return kernel.get_runtime_context().get_job_id()


def _kept() -> kernel.KeyValue:
    return kernel.KeyValue(f"kernel.names/{_job()}")
