"""Why actors end, as those who call them are told."""

from __future__ import annotations

import pickle

from kernel.runtime import operations as op
from kernel.runtime.failures import Failure
from kernel.runtime.identity import Identity
from kernel_spec.errors import ActorDiedError


def no_handles(name: str) -> str:
    """Return why an actor ended that has no handles any more; `name` is that it was found by, empty if it has none."""
    found_by_name = ' (one that was found by its name does not keep it; lifetime="detached" does)' if name else ""
    return f"all handles to it went out of scope{found_by_name}"


def argument_failed(failure: Failure, class_name: str, actor: bytes, identity: Identity, pid: int) -> Failure:
    """Return the failure of an actor's calls that says that `failure`, of an argument of its constructor, ended it."""
    kind, data = failure
    name = f"{class_name}.__init__"
    if kind == op.USER_ERROR:
        from kernel.runtime.task_error import of_constructor  # which the head, that says other reasons, never needs

        where = (name, identity.id.hex()[:8], pid, identity.node.hex()[:8], None)
        return kind, of_constructor(data, where, actor.hex())
    cause = pickle.loads(data)
    text = f"{name}() was never run, because one of its arguments failed: {type(cause).__name__}: {cause}"
    error = ActorDiedError(text)
    error.actor_id = actor.hex()  # type: ignore[attr-defined]
    return op.SYSTEM_ERROR, pickle.dumps(error)
