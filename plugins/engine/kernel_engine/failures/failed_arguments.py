"""Make the error of an actor whose constructor got a failed argument."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

from kernel_engine.failures.failures import Failure
from kernel_engine.messages import process_messages as op
from kernel_spec.errors import ActorDiedError

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineIdentity


def argument_failed(failure: Failure, class_name: str, actor: bytes, identity: EngineIdentity, pid: int) -> Failure:
    """Return the failure of an actor's calls that says that `failure`, of an argument of its constructor, ended it."""
    kind, data = failure
    name = f"{class_name}.__init__"
    if kind == op.USER_ERROR:
        from kernel_engine.failures.task_error import of_constructor  # Only a failure needs it.

        where = (name, identity.id.hex()[:8], pid, identity.node.hex()[:8], None)
        return kind, of_constructor(data, where, actor.hex())
    cause = pickle.loads(data)
    text = f"{name}() was never run, because one of its arguments failed: {type(cause).__name__}: {cause}"
    error = ActorDiedError(text)
    error.actor_id = actor.hex()  # type: ignore[attr-defined]
    return op.SYSTEM_ERROR, pickle.dumps(error)
