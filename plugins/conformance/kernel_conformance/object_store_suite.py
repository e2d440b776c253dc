"""The parts of the object stores' conformance suite share this: a store with a shell around it, and what is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kernel_conformance.object_store_shell import StoreShell
from kernel_spec.ids import ObjectId, TaskId, object_id
from kernel_spec.store import Failed, ObjectStore


def name(index: int) -> ObjectId:
    """Return an object id that tells its number."""
    return object_id(TaskId(b"conformance-task"), index)


class ObjectStoreSuite:
    """What all parts of the suite have in common: the store under test, and what it can do."""

    make_store: Callable[[], ObjectStore]
    """Makes the store under test."""
    spills = True
    """Whether a full store moves objects to the spill target."""

    @contextmanager
    def shell(self, capacity: int = 1 << 16, eager: bool = True) -> Iterator[StoreShell]:
        """Make a store with a shell around it, and close it again."""
        shell = StoreShell(type(self).make_store(), capacity, eager)
        try:
            yield shell
        finally:
            shell.close()

    @staticmethod
    def failure(shell: StoreShell, request: int, kind: type[Exception]) -> Exception:
        """Return the error a request failed with, which must be of `kind`."""
        answer = shell.answers.get(request)
        assert isinstance(answer, Failed), f"the request should have failed, the answer is {answer!r}"
        assert isinstance(answer.error, kind), f"{kind.__name__} was expected, not {answer.error!r}"
        return answer.error

    @staticmethod
    def is_empty(shell: StoreShell) -> None:
        """Check that nothing is left."""
        usage = shell.server.usage()
        counts = (usage.used, usage.reserved, usage.pinned, usage.spilled, usage.objects, usage.waiting)
        assert counts == (0, 0, 0, 0, 0, 0), f"something is left: {usage}"
        assert shell.server.objects() == []
