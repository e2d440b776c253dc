"""Say what follows from a worker's end for memory: how long its work rests before it runs again, and the errors."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_spec import memory_words
from kernel_spec.errors import ActorOutOfMemoryError, OutOfMemoryError

FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0

FAULTS = {
    op.CROWDED_OUT: memory_words.CROWDED_OUT,
    op.OUT_OF_MEMORY: memory_words.OUT_OF_MEMORY,
    op.OVER_QUOTA: memory_words.OVER_QUOTA,
}
"""Faults by the names that memory guards use."""
_ADVICE = {
    op.CROWDED_OUT: "Have fewer of them run at once (num_cpus=, or memory= to reserve what each needs)",
    op.OUT_OF_MEMORY: "Have it hold less at a time, reserve what it needs (memory=), or give the node more memory",
    op.OVER_QUOTA: "Raise its memory=, or have it hold less at a time",
}


def rest_seconds(attempt: int) -> float:
    """Return how long work rests before its run number `attempt` (1: the first repetition): each time twice as long."""
    return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt - 1, 16))


def task_error(name: str, cause: str, fault: int, attempt: int) -> OutOfMemoryError:
    """Return the error of a task that was ended in its run number `attempt` and is not run again."""
    if fault == op.OVER_QUOTA:
        again = "It is not run again, because it would need as much"
    elif attempt:
        again = f"It was run {attempt + 1} times and has no retries left (max_retries)"
    else:
        again = "It may not be run again (max_retries=0)"
    return OutOfMemoryError(f"task {name}() was ended: {cause}. {again}. {_ADVICE[fault]}")


def actor_error(label: str, actor: str, cause: str, fault: int, attempt: int) -> ActorOutOfMemoryError:
    """Return the error of calls to the actor with the id `actor`, ended after `attempt` restarts, for good."""
    again = f"It was restarted {attempt} times and" if attempt else "It"
    return ActorOutOfMemoryError(
        f"actor {label} was ended: {cause}. {again} has no restarts left (max_restarts). {_ADVICE[fault]}",
        actor_id=actor,
    )
