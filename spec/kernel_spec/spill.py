"""The spill target contract: keep objects for which the object store has no room.

Called from a small pool of threads in the node agent. `write` is atomic: a uri it returned names the complete
object. It raises `OutOfDiskError` when the target is full and `SpillError` otherwise, after removing what it had
written. What was spilled need not survive the session.

A target that keeps files on this machine should have an attribute `directory`: the path of one that holds all of them
and nothing of any other session. It is removed when the agent was killed and `close` could not be called.

A target that can remove many copies at once cheaply should have a method `delete_many(uris)`; it is called instead of
`delete`, with one uri or more.

A call that takes too long is given up: its waiters get an error, and another thread goes on with the next call. It
should end by itself eventually, with `SpillError`; its result is not used, and a copy that it wrote is deleted.

The kernel keeps a checksum of each copy and compares it with what `read_into` brings. A copy that is damaged, or can't
be read, is lost to the session: another copy is used, or the object is made again.

On conflict: a driver (one chosen by name). On absence the kernel's own, a directory of the session, is used.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kernel_spec.ids import ObjectId


@runtime_checkable
class SpillTarget(Protocol):
    """Keeps bytes under a uri. See the module's text."""

    name: str

    def write(self, object: ObjectId, data: memoryview) -> str:
        """Store the bytes and return the uri to read them back by."""
        ...

    def read_into(self, uri: str, data: memoryview) -> None:
        """Fill `data`, whose length is the object's; raise `SpillError` when the copy is missing or short."""
        ...

    def delete(self, uri: str) -> None:
        """Remove the copy. Missing ones are ignored."""
        ...

    def close(self) -> None:
        """Remove everything this session stored."""
        ...
