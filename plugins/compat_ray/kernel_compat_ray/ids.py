"""Ids for Ray's programs: text in hexadecimal form, with the methods that Ray's ids have.

Kernel's functions take and return ids as such text, so both are equal.
"""

from __future__ import annotations

import os
from typing import TypeVar

from kernel_spec.ids import SHORT_ID_BYTES, TASK_ID_BYTES

_IdT = TypeVar("_IdT", bound="BaseID")


class BaseID(str):
    """Is an id, made of its bytes or of its hexadecimal form. Raises ValueError for bytes of another length."""

    __slots__ = ()
    SIZE = SHORT_ID_BYTES

    def __new__(cls: type[_IdT], id: bytes | str = "") -> _IdT:
        """Make one of bytes, or of text."""
        if isinstance(id, bytes):
            if len(id) != cls.SIZE:
                raise ValueError(f"{cls.__name__} takes {cls.SIZE} bytes, not {len(id)}")
            id = id.hex()
        elif not isinstance(id, str):
            raise TypeError(f"{cls.__name__} takes bytes, not a {type(id).__name__}")
        return super().__new__(cls, id)

    @classmethod
    def from_hex(cls: type[_IdT], hex_id: str) -> _IdT:
        """Return the id of that hexadecimal form."""
        return cls(bytes.fromhex(hex_id))

    @classmethod
    def from_binary(cls: type[_IdT], id_bytes: bytes) -> _IdT:
        """Return the id of these bytes."""
        return cls(id_bytes)

    @classmethod
    def from_random(cls: type[_IdT]) -> _IdT:
        """Return an id that nothing has."""
        return cls(os.urandom(cls.SIZE))

    @classmethod
    def nil(cls: type[_IdT]) -> _IdT:
        """Return the id of nothing."""
        return cls("ff" * cls.SIZE)

    @classmethod
    def size(cls) -> int:
        """Return how many bytes an id has."""
        return cls.SIZE

    def hex(self) -> str:
        """Return the hexadecimal form."""
        return str(self)

    def binary(self) -> bytes:
        """Return the bytes."""
        return bytes.fromhex(self)

    def is_nil(self) -> bool:
        """Return whether it is the id of nothing."""
        return not self or self == "ff" * self.SIZE

    def __str__(self) -> str:
        return str.__str__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.hex()})"


class UniqueID(BaseID):
    """An id of no special kind."""

    __slots__ = ()


class JobID(BaseID):
    """The id of a program that joined the session."""

    __slots__ = ()

    @classmethod
    def from_int(cls, value: int) -> JobID:
        """Return the id that is that number."""
        return cls(value.to_bytes(cls.SIZE, "little"))


class NodeID(BaseID):
    """The id of a node."""

    __slots__ = ()


class WorkerID(BaseID):
    """The id of a process."""

    __slots__ = ()


class PlacementGroupID(BaseID):
    """The id of a placement group."""

    __slots__ = ()


class _OfAJob(BaseID):
    __slots__ = ()
    SIZE = TASK_ID_BYTES

    @property
    def job_id(self) -> JobID:
        """Return the id of the job or worker that made it; of what the program itself made, the job's."""
        return JobID(self[: 2 * SHORT_ID_BYTES])


class TaskID(_OfAJob):
    """The id of a task or of an actor's call."""

    __slots__ = ()


class ActorID(_OfAJob):
    """The id of an actor."""

    __slots__ = ()


class FunctionID(BaseID):
    """The id of a function."""

    __slots__ = ()


class ActorClassID(BaseID):
    """The id of an actor's class."""

    __slots__ = ()
