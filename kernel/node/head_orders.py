"""What the head tells a node to do: a handler for each word that comes down the uplink."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.control import words
from kernel.node.node_report import node_report
from kernel.runtime import operations as op
from kernel.transport.connection import Message
from kernel_spec.ids import JobId, ProcessId

if TYPE_CHECKING:
    from kernel.node.agent import Agent


class HeadOrders:
    """Carries them out, in the agent's loop: most by the part of the agent that they are for."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        jobs, packages, workers = agent.jobs, agent.packages, agent.workers
        self._words: dict[int, Callable[..., object]] = {
            words.TO_PROCESS: self._to_process,
            words.JOB: lambda job, said: jobs.__setitem__(job, pickle.loads(said)),
            words.ENVIRONMENT: lambda key, said: packages.learn(key, pickle.loads(said)),
            words.PACKAGE: agent.package_fetcher.on_piece,
            words.FIND_WORKER: workers.find,
            words.DROP_WORKER: workers.drop,
            words.CONSTRUCT: workers.construct,
            words.END_WORKER: workers.end,
            words.KILL_WORKER: workers.kill,
            words.JOB_ENDED: self._job_ended,
            words.PROCESSES_GONE: self._processes_gone,
            words.ASK_PROCESS: self._ask_process,
            words.ASK_NODE: self._ask_node,
            words.SHOW_LINES: agent.output.show,
            words.OBSERVE: agent.events.want,
            words.END: agent.stop,
            words.DRAIN: agent.account.drain,
            words.RESOURCE: agent.account.set_resource,
            words.MEMBER: self._member,
        }

    def handle(self, message: Message) -> None:
        """Do what the head says."""
        try:
            self._words[message[0]](*message[1:])
        except Exception:
            self._agent.log.exception("a message of the head could not be handled", word=message[0])

    def _to_process(self, process: ProcessId, message: Message) -> None:
        self._agent.account.requests.answered(process, message)
        self._agent.processes.send(process, message)

    def _job_ended(self, job: JobId) -> None:
        self._agent.jobs.pop(job, None)
        workers = self._agent.workers
        for worker in [worker for worker in workers.pool.workers.values() if worker.key[0] == job]:
            workers.end(worker.id, "its program ended", drain=False)

    def _member(self, place: str, there: bool) -> None:
        if self._agent.relay is not None:
            self._agent.relay.member(place, there)

    def _processes_gone(self, processes: list[ProcessId], place: str) -> None:
        agent = self._agent
        for process in processes:
            agent.forget(process)
        if place and agent.exchange is not None:
            agent.exchange.neighbours.forget(place)
            agent.processes.broadcast((op.PEERS_GONE, processes, place))

    def _ask_process(self, number: int, process: ProcessId, method: str, arguments: tuple[Any, ...]) -> None:
        processes = self._agent.processes
        connection = processes.connections.get(process)
        if connection is None:
            self._answer(number, None)
        else:
            processes.ask(connection, method, lambda value: self._answer(number, value), *arguments)

    def _ask_node(self, number: int, method: str, arguments: tuple[Any, ...]) -> None:
        agent = self._agent
        if method == "copy" and agent.exchange is not None:
            agent.exchange.copy(*arguments, lambda copied: self._answer(number, copied))
        elif method == "drain_output":
            agent.logs.drain()
            self._answer(number, True)
        else:
            self._answer(number, node_report(agent, *arguments))

    def _answer(self, number: int, value: Any) -> None:
        self._agent.uplink.send((words.ANSWER, number, value))
