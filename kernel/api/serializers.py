"""Serializers that a program registers for its own types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel.api.session import ensure_session
from kernel_spec.errors import OptionError


def register_serializer(cls: type, *, serializer: Callable[[Any], Any], deserializer: Callable[[Any], Any]) -> None:
    """Send instances of `cls` from this process as `serializer(instance)`; receivers apply `deserializer` to that.

    The functions are sent with the values, so receivers need not register anything. The registration holds for this
    process only: a task that returns such instances has to register, too. Raises OptionError when `cls` is not a type.
    """
    if not isinstance(cls, type):
        raise OptionError(f"register_serializer() takes a type, not {cls!r}")
    ensure_session().serializer.register(cls, serializer, deserializer)


def deregister_serializer(cls: type) -> None:
    """Undo `register_serializer` for `cls` in this process."""
    ensure_session().serializer.deregister(cls)
