"""What the head tells a node to do: a handler for each of its messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel.node.node_report import node_report
from kernel.protocol import head_messages
from kernel.protocol import process_messages as op
from kernel.protocol.named_messages import Kind, number_of, packed
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
            head_messages.FIND_WORKER: workers.find,
            head_messages.DROP_WORKER: workers.drop,
        }
        self._on(head_messages.DescribeJob, lambda said: jobs.__setitem__(said.job, pickle.loads(said.surroundings)))
        self._on(
            head_messages.DescribeEnvironment, lambda said: packages.learn(said.key, pickle.loads(said.description))
        )
        self._on(head_messages.PackagePiece, lambda said: agent.package_fetcher.on_piece(*said))
        self._on(head_messages.ConstructActor, lambda said: workers.construct(*said))
        self._on(head_messages.StopWorker, lambda said: workers.end(*said))
        self._on(head_messages.KillWorker, lambda said: workers.kill(*said))
        self._on(head_messages.JobEnded, lambda said: self._job_ended(said.job))
        self._on(head_messages.ProcessesGone, self._processes_gone)
        self._on(head_messages.AskProcess, self._ask_process)
        self._on(head_messages.AskNode, self._ask_node)
        self._on(head_messages.ShowLines, lambda said: agent.output.show(*said))
        self._on(head_messages.Observe, lambda said: agent.events.want(said.wanted))
        self._on(head_messages.EndNode, lambda said: agent.stop(said.reason))
        self._on(head_messages.DrainNode, lambda said: agent.node_state.drain(said.seconds))
        self._on(head_messages.SetResource, lambda said: agent.node_state.set_resource(*said))
        self._on(head_messages.NodeReachable, self._node_reachable)

    def _on(self, kind: type[Kind], handler: Callable[[Kind], object]) -> None:
        self._words[number_of(kind)] = lambda *fields: handler(kind(*fields))

    def handle(self, message: Message) -> None:
        """Do what the head says."""
        try:
            self._words[message[0]](*message[1:])
        except Exception:
            self._agent.log.exception("a message of the head could not be handled", word=message[0])

    def _to_process(self, process: ProcessId, message: Message) -> None:
        self._agent.node_state.requests.answered(process, message)
        self._agent.processes.send(process, message)

    def _job_ended(self, job: JobId) -> None:
        self._agent.jobs.pop(job, None)
        workers = self._agent.workers
        for worker in [worker for worker in workers.pool.workers.values() if worker.key[0] == job]:
            workers.end(worker.id, "its program ended", drain=False)

    def _node_reachable(self, said: head_messages.NodeReachable) -> None:
        if self._agent.relay is not None:
            self._agent.relay.member(said.place, said.there)

    def _processes_gone(self, said: head_messages.ProcessesGone) -> None:
        agent = self._agent
        for process in said.processes:
            agent.forget(process)
        if said.place and agent.exchange is not None:
            agent.exchange.agent_links.forget(said.place)
            agent.processes.broadcast(packed(op.PeersGone(processes=said.processes, place=said.place)))

    def _ask_process(self, said: head_messages.AskProcess) -> None:
        processes = self._agent.processes
        connection = processes.connections.get(said.process)
        if connection is None:
            self._answer(said.number, None)
        else:
            processes.ask(connection, said.method, lambda value: self._answer(said.number, value), *said.arguments)

    def _ask_node(self, said: head_messages.AskNode) -> None:
        agent = self._agent
        if said.method == "copy" and agent.exchange is not None:
            agent.exchange.copy(*said.arguments, lambda copied: self._answer(said.number, copied))
        elif said.method == "drain_output":
            agent.logs.drain()
            self._answer(said.number, True)
        else:
            self._answer(said.number, node_report(agent, *said.arguments))

    def _answer(self, number: int, value: Any) -> None:
        self._agent.head_link.send(packed(head_messages.AskAnswered(number=number, value=value)))
