"""Ask many processes or nodes at once, and gather the answers that come in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.transport.reactor import Reactor
from kernel_spec.ids import NodeId, ProcessId

PATIENCE_SECONDS = 2.0
"""Total time in seconds for all processes to answer; missing answers are left out."""


class Gathering:
    """Asks many processes or nodes at once. Runs in the head's loop.

    The result of each question is `then(answers)`, where `answers` are by id, and None for a missing answer.
    """

    def __init__(self, cluster: ClusterTable, reactor: Reactor) -> None:
        self._cluster = cluster
        self._reactor = reactor

    def of_processes(
        self,
        asked: Iterable[ProcessRecord],
        method: str,
        then: Callable[[dict[ProcessId, Any]], Any],
        *arguments: Any,
        seconds: float = PATIENCE_SECONDS,
    ) -> Deferred:
        """Ask these processes; those that have not answered within `seconds` are left out."""
        ask = self._cluster.ask
        return self._gather(((one.id, one, ask) for one in asked), then, method, arguments, seconds)

    def of_user_processes(self, method: str, then: Callable[[dict[ProcessId, Any]], Any], *arguments: Any) -> Deferred:
        """Ask every process that runs user code; those that have not answered in time are left out."""
        return self.of_processes(self._cluster.user_processes(), method, then, *arguments)

    def of_nodes(
        self,
        method: str,
        then: Callable[[dict[NodeId, Any]], Any],
        *arguments: Any,
        asked: Iterable[NodeRecord] | None = None,
        seconds: float = PATIENCE_SECONDS,
    ) -> Deferred:
        """Ask every node, or those `asked`; those that have not answered within `seconds` are left out."""
        nodes = self._cluster.living_nodes() if asked is None else asked
        ask = self._cluster.ask_node
        return self._gather(((node.id, node, ask) for node in nodes), then, method, arguments, seconds)

    def _gather(
        self,
        asked: Iterable[tuple[Any, Any, Callable[..., None]]],
        then: Callable[[dict[Any, Any]], Any],
        method: str,
        arguments: tuple[Any, ...],
        seconds: float,
    ) -> Deferred:
        deferred = Deferred()
        chosen = list(asked)
        answers: dict[Any, Any] = {id: None for id, _, _ in chosen}
        missing = set(answers)

        def answered(id: Any, value: Any) -> None:
            if id not in missing:
                return  # The question was given up.
            missing.remove(id)
            answers[id] = value
            if not missing:
                deferred.set(then(answers))

        def give_up() -> None:
            if missing:
                missing.clear()
                deferred.set(then(answers))

        if not chosen:
            deferred.set(then(answers))
        for id, one, ask in chosen:
            ask(one, method, lambda value, id=id: answered(id, value), *arguments)  # type: ignore[misc]
        self._reactor.call_later(seconds, give_up)
        return deferred

    # -- who did not answer ----------------------------------------------------------------------------------------

    def silent_processes(self, answers: Mapping[ProcessId, Any]) -> dict[bytes, tuple[int, str]]:
        """Return pid and node id (hexadecimal) of each process that is there, and did not answer in time."""
        asked = {id: self._cluster.callers.get(id) for id, answer in answers.items() if answer is None}
        return {id: (one.pid, one.node.id.hex()) for id, one in asked.items() if one is not None}

    def silent_nodes(self, answers: Mapping[NodeId, Any]) -> list[str]:
        """Return the ids of nodes that were asked, are there still, and did not answer in time."""
        return [node.id.hex() for node in self._cluster.working_nodes() if answers.get(node.id, True) is None]

    def from_working_nodes(self, reports: Mapping[NodeId, Any]) -> dict[NodeId, Any]:
        """Return the reports of nodes that answered; what a remote driver has is its own."""
        working = {node.id for node in self._cluster.working_nodes()}
        return {id: report for id, report in reports.items() if report is not None and id in working}
