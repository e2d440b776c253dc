"""The hooks of this distribution. The serializer is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kernel_spec.hooks import hookimpl
from kernel_spec.serialization import Serializer


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"serializer": 1}


@hookimpl
def kernel_serializers() -> Mapping[str, Callable[[], Serializer]]:
    """Offer the serializer `arrow`."""
    return {"arrow": make_serializer}


def make_serializer() -> Serializer:
    """Return a serializer of Arrow's tables and arrays."""
    from kernel_serializer_arrow.serializer import ArrowSerializer

    return ArrowSerializer()
