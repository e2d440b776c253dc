"""Name actors that were created without a name, by `ray.util.named_actors`. An actor keeps their handles."""

from __future__ import annotations

from typing import Any

import kernel
from kernel.exceptions import ActorNotFoundError
from kernel_compat_ray import calls

_NAME = "kernel_compat_ray.named_handles"


class Handles:
    """Keeps handles by the names that were given to them, as an actor."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}

    def put(self, name: str, handle: Any) -> bool:
        """Keep a handle; return whether the name was free."""
        return self._handles.setdefault(name, handle) is handle

    def get(self, name: str) -> Any:
        """Return the handle of a name, or None."""
        return self._handles.get(name)


def register_actor(name: str, actor_handle: kernel.ActorHandle) -> None:
    """Give an actor a name, by which all programs of the session find it.

    Raises:
        TypeError: If it is no handle of an actor.
        ValueError: If another actor has the name.
    """
    if not isinstance(actor_handle, kernel.ActorHandle):
        raise TypeError(f"register_actor() got {actor_handle!r} for {name!r}: give the handle that remote() returned")
    keeper = kernel.remote(name=_NAME, namespace=_NAME, lifetime="detached", get_if_exists=True)(Handles).remote()
    if _named(name) is not None or not kernel.get(keeper.put.remote(name, actor_handle)):
        raise ValueError(f"an actor is already named {name!r}: take another name, or find that one with get_actor()")


def get_actor(name: str) -> kernel.ActorHandle:
    """Return the handle of an actor that was named here, or when it was created.

    Raises:
        ValueError: If there is none of that name.
    """
    named = _named(name)
    if named is not None:
        return named
    try:
        keeper: Any = kernel.get_actor(_NAME, _NAME)
    except ActorNotFoundError:
        return calls.get_actor(name)
    found = kernel.get(keeper.get.remote(name))
    return calls.get_actor(name) if found is None else found


def _named(name: str) -> kernel.ActorHandle | None:
    try:
        return calls.get_actor(name)
    except ActorNotFoundError:
        return None
