"""Names that a program gives to values, such as environments, and that its tasks, actors and trials find as well.

A name is known where it was given, without any session. With one, its value is kept by the head, for the program that
gave it; a process of that program that does not know a name asks there.
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
    """What is kept in place of a value that can't be pickled: why."""

    reason: str


class SharedNames:
    """The names of values of one kind."""

    _all: ClassVar[WeakSet[SharedNames]] = WeakSet()

    def __init__(self, kind: str) -> None:
        """Begin without names.

        Args:
            kind: What the values are, for messages, and by which processes find them.
        """
        self.kind = kind
        self.values: dict[str, Any] = {}
        """Those that were given in this process."""
        self._published: dict[str, str | None] = {}
        """Of those that are for other processes, too: for which program the head has them; None for none so far."""
        self._all.add(self)

    def register(self, name: str, value: Any) -> None:
        """Give a value a name, also for all processes of this program. A name that is given again means the new one."""
        self.values[name], self._published[name] = value, None
        self.publish()

    def know(self, name: str, value: Any) -> None:
        """Give a value a name in this process alone."""
        self.values[name] = value
        self._published.pop(name, None)

    def publish(self) -> None:
        """Let the processes of this program find what was named before there was a session; without one, do nothing."""
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
            RunError: If another process of this program gave the name, and its value can't be had here.
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
                f"the {self.kind} {name!r} was registered in another process, and can't be had in this one: "
                f"{value.reason}. Define it in a module that both can import, or register it in this process as well"
            )
        return value

    def names(self) -> list[str]:
        """Return all names that can be found here, in order."""
        beginning = f"{self.kind}/"
        there = _kept().keys(beginning) if kernel.is_initialized() else []
        return sorted({*self.values, *(key.removeprefix(beginning) for key in there)})


def publish_names() -> None:
    """Let the processes of this program find all names that it gave before there was a session."""
    for names in SharedNames._all:
        names.publish()


def _pickled(value: Any) -> bytes:
    made: bytes
    try:
        made = cloudpickle.dumps(value)
    except Exception as error:  # whatever a value raises
        made = cloudpickle.dumps(_Unsendable(f"it can't be pickled: {type(error).__name__}: {error}"))
    return made


def _job() -> str:
    return kernel.get_runtime_context().get_job_id()


def _kept() -> kernel.KeyValue:
    return kernel.KeyValue(f"kernel.names/{_job()}")
