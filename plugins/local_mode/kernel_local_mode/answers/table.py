"""Make the parts that answer questions, and find the one that answers a given question."""

from __future__ import annotations

from typing import Any

from kernel_engine.one_process.transport import InProcessStore
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import CallTrace
from kernel_local_mode.actor_table import LocalActors
from kernel_local_mode.answers.actors import ActorAnswers
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.answers.groups import GroupAnswers
from kernel_local_mode.answers.node import NodeAnswers
from kernel_local_mode.answers.session import SessionAnswers
from kernel_local_mode.answers.storage import EnvironmentAnswers, KeyValueAnswers
from kernel_local_mode.environment import LocalEnvironments
from kernel_local_mode.explanation import Explanations
from kernel_local_mode.resources import LocalResources
from kernel_spec.errors import ProtocolError


class LocalAnswers:
    """Maps each question to the part that answers it; questions are the names of the parts' public methods."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def ask(self, method: str, *arguments: Any) -> Any:
        """Answer one question; raises ProtocolError for one that is not known."""
        for part in self._parts:
            if not method.startswith("_") and hasattr(type(part), method):
                return getattr(part, method)(*arguments)
        raise ProtocolError(f"local mode does not answer {method!r}")


def make_answers(
    facts: SessionFacts,
    tasks: TaskTable,
    trace: CallTrace,
    store: InProcessStore,
    resources: LocalResources,
    actors: LocalActors,
    explanations: Explanations,
    environments: LocalEnvironments,
) -> LocalAnswers:
    """Return the answers about the session that these parts make up."""
    lock = tasks.process.lock
    node = NodeAnswers(facts, lock, resources)
    about_actors = ActorAnswers(facts, lock, actors, explanations)
    groups = GroupAnswers(facts, lock, resources, actors)
    session = SessionAnswers(facts, tasks, trace, store, resources, node, about_actors, groups)
    return LocalAnswers(session, node, about_actors, groups, KeyValueAnswers(), EnvironmentAnswers(environments))
