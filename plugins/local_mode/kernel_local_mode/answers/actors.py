"""Answer questions about actors."""

from __future__ import annotations

import os
import threading
from typing import Any

from kernel.runtime.definitions import group_of
from kernel_local_mode.actor import DEAD
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.explanation import Explanations
from kernel_spec.ids import ActorId
from kernel_spec.resources import quantities


class ActorAnswers:
    """Answers questions about the actors, which it only reads."""

    def __init__(
        self, facts: SessionFacts, lock: threading.RLock, actors: LocalActors, explanations: Explanations
    ) -> None:
        self._facts = facts
        self._lock = lock
        self._actors = actors
        self._explanations = explanations

    def actors(self, dead: bool = True) -> list[dict[str, Any]]:
        """Return a row per actor, of those that have died only with `dead`."""
        with self._lock:
            return [
                {
                    "actor_id": actor.id.hex(),
                    "class_name": actor.name,
                    "name": actor.options.name,
                    "namespace": actor.namespace,
                    "state": actor.state,
                    "pid": os.getpid(),
                    "node_id": self._facts.node.hex(),
                    "restarts": actor.attempt,
                    "detached": actor.options.detached,
                    "job_id": self._facts.job.hex(),
                    "cause": actor.cause,
                    "required_resources": quantities(actor.options.wanted),
                    "placement_group_id": (group_of(actor.options.strategy) or {}).get("group"),
                }
                for actor in self._actors.actors.values()
                if dead or actor.state != DEAD
            ]

    def explain_actor(self, actor: bytes) -> str:
        """Say what an actor waits for."""
        return self._explanations.of_actor(self._actors.actors.get(ActorId(actor)))
