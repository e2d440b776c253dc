"""What the head tells a node to do: a handler for each of its messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.node.node_report import node_report
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.transport.connection import Message
from kernel_spec.ids import JobId, ProcessId

if TYPE_CHECKING:
    from kernel.node.agent import Agent


class HeadCommands:
    """Carries them out, in the agent's loop: most by the part of the agent that they are for."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        jobs, packages, workers = agent.jobs, agent.packages, agent.workers
        self._words: dict[int, Callable[..., object]] = {
            head_messages.TO_PROCESS: self._to_process,
            head_messages.JOB: lambda job, said: jobs.__setitem__(job, pickle.loads(said)),
            head_messages.ENVIRONMENT: lambda key, said: packages.learn(key, pickle.loads(said)),
            head_messages.PACKAGE: agent.package_fetcher.on_piece,
            head_messages.FIND_WORKER: workers.find,
            head_messages.DROP_WORKER: workers.drop,
            head_messages.CONSTRUCT: workers.construct,
            head_messages.END_WORKER: workers.end,
            head_messages.KILL_WORKER: workers.kill,
            head_messages.JOB_ENDED: self._job_ended,
            head_messages.PROCESSES_GONE: self._processes_gone,
            head_messages.ASK_PROCESS: self._ask_process,
            head_messages.ASK_NODE: self._ask_node,
            head_messages.SHOW_LINES: agent.output.show,
            head_messages.OBSERVE: agent.events.want,
            head_messages.END: agent.stop,
            head_messages.DRAIN: agent.account.drain,
            head_messages.RESOURCE: agent.account.set_resource,
            head_messages.MEMBER: self._member,
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
        self._agent.head_link.send((head_messages.ANSWER, number, value))
