"""Keep the names of actors, and the values from which handles to an actor are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.runtime.definitions import ActorOptions, ClassDefinition
from kernel_spec.errors import NameTakenError
from kernel_spec.ids import ActorId, ProcessId


def describe_actor(
    actor: ActorId, definition: ClassDefinition, options: ActorOptions, owner: ProcessId
) -> dict[str, Any]:
    """Return what handles are made from."""
    return {
        "id": bytes(actor),
        "definition": (definition.name, definition.methods, definition.is_async, options.max_task_retries),
        "max_pending_calls": options.max_pending_calls,
        "owner": owner,
        "owner_address": "",
        "detached": options.detached,
        "name": options.name,
    }


class ActorNames:
    """Maps names to living actors, by namespace. Used under the lock of the engine."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], Mapping[str, Any]] = {}

    def find(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return the description of the actor of that name."""
        return self._names.get((namespace, name))

    def existing(self, namespace: str, options: ActorOptions) -> Mapping[str, Any] | None:
        """Return the actor to be used instead of a new one. Raises NameTakenError when there is one that may not."""
        found = self.find(namespace, options.name) if options.name else None
        if found is not None and not options.get_if_exists:
            raise NameTakenError(
                f"an actor named {options.name!r} lives in namespace {namespace!r}; use get_actor({options.name!r}), "
                "options(get_if_exists=True), or another name"
            )
        return found

    def add(self, namespace: str, description: Mapping[str, Any]) -> None:
        """Give a new actor its name, if it has one."""
        if description["name"]:
            self._names[(namespace, description["name"])] = description

    def remove(self, namespace: str, description: Mapping[str, Any]) -> None:
        """Free the name of an actor that has ended."""
        if self._names.get((namespace, description["name"])) is description:
            del self._names[(namespace, description["name"])]

    def rows(self, namespace: str | None) -> list[dict[str, str]]:
        """Return namespace and name of all, or of those in one namespace."""
        return [{"namespace": ns, "name": name} for ns, name in self._names if namespace in (None, ns)]
