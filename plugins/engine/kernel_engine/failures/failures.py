"""Say why an object is not available, as the value of an entry that has failed."""

from __future__ import annotations

import pickle

from kernel_engine.messages import process_messages as op
from kernel_spec.errors import KernelError, ObjectLostError, OwnerDiedError
from kernel_spec.ids import ProcessId

Failure = tuple[int, bytes]
"""The kind of failure (see `process_messages`), and the pickled error."""


def failure_of(error: KernelError) -> Failure:
    """Return a system error as the value of a failed entry."""
    return op.SYSTEM_ERROR, pickle.dumps(error)


def lost(id: bytes, why: str) -> Failure:
    """Return the failure of an object that is not to be had any more."""
    return failure_of(ObjectLostError(f"object {id.hex()} can't be had: {why}"))


def owner_died(id: bytes, owner: ProcessId | None) -> Failure:
    """Return the failure of an object whose owner has ended."""
    return failure_of(
        OwnerDiedError(
            f"object {id.hex()} is lost: its owner, process {owner.hex() if owner else '?'}, has ended. "
            "Objects live with the process that put them or submitted their task: "
            "create it in the driver or in a longer-lived actor."
        )
    )
