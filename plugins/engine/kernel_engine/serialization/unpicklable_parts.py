"""Check which part of a value can't be sent, before it is sent."""

from __future__ import annotations

from typing import Any

from kernel.runtime import current
from kernel_engine.serialization.pickled_parts import attempt
from kernel_engine.serialization.unpicklable import UnpicklablePart, find_culprits

__all__ = ["UnpicklablePart", "unpicklable_parts"]


def unpicklable_parts(value: Any, name: str = "value") -> list[UnpicklablePart]:
    """Return the parts of `value` that can't be sent to another process, nearest first; none when all of it can.

    It finds three at most. Paths begin with `name`: `value["logger"].lock`. Works without a session, too; in one, the
    serializers count that were registered.
    """
    runtime = current._runtime
    serializer: Any = runtime.serializer if runtime is not None else None
    error = attempt(value, serializer)
    if error is None:
        return []
    return find_culprits(value, name, serializer) or [UnpicklablePart(value, name, error)]
