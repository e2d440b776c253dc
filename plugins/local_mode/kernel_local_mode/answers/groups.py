"""Answer questions about placement groups."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from kernel.runtime.definitions import group_of
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.groups import LocalGroup
from kernel_local_mode.resources import LocalResources
from kernel_spec.placement import all_hold, conditions
from kernel_spec.resources import Amounts


class GroupAnswers:
    """Answers questions about the groups, and changes them, under `lock`."""

    def __init__(
        self, facts: SessionFacts, lock: threading.RLock, resources: LocalResources, actors: LocalActors
    ) -> None:
        self._facts = facts
        self._lock = lock
        self._resources = resources
        self._groups = resources.groups
        self._actors = actors

    def create_placement_group(
        self,
        id: str,
        bundles: list[Amounts],
        strategy: str,
        name: str,
        namespace: str,
        detached: bool,
        hints: bytes,
        labels: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Ask for a group. Raises NameTakenError."""
        right = all(all_hold(conditions(wanted), self._facts.labels) for wanted in labels)
        group = LocalGroup(id, bundles, strategy, name, namespace, detached, right)
        with self._lock:
            self._groups.create(group)

    def remove_placement_group(self, id: str) -> None:
        """End a group, and what is in it."""
        with self._lock:
            self._groups.remove(id, "it was removed by kernel.remove_placement_group()")
            for actor in list(self._actors.actors.values()):
                group = group_of(actor.options.strategy)
                if group is not None and group["group"] == id:
                    self._actors.die(actor, self._groups.explain(id))
            self._resources.try_again()

    def find_placement_group(self, name: str, namespace: str) -> dict[str, Any] | None:
        """Return the row of the living group of that name."""
        group = self._groups.find(namespace, name)
        return group.row(self._facts.node.hex()) if group is not None else None

    def placement_groups(self, id: str = "") -> list[dict[str, Any]]:
        """Return a row per group, or just that of one."""
        node = self._facts.node.hex()
        with self._lock:
            rows = [group.row(node) for group in self._groups.groups.values() if id in ("", group.id)]
        return [{**row, "job_id": self._facts.job.hex()} for row in rows]

    def explain_placement_group(self, id: str) -> str:
        """Say what a group waits for."""
        with self._lock:
            return self._groups.explain(id)
