"""Answer the clients of a node's object store: its processes, and parts of the agent."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Container
from typing import Any, Protocol

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message
from kernel_spec import store as contract
from kernel_spec.ids import ProcessId

LocalAnswer = Callable[[int, Any, "Exception | None"], None]
"""Takes a request's number, and the answer or an error."""


class ProcessMessages(Protocol):
    """Reaches the processes of a node, as `ProcessTable` does."""

    def send(self, process: ProcessId, message: Message) -> None:
        """Queue a message to a process, if it is still there."""

    def broadcast(self, message: Message) -> None:
        """Queue a message to every process."""


class StoreClients:
    """Answers the processes that `processes` reaches. `ended` are those, here or elsewhere, that have ended."""

    def __init__(self, processes: ProcessMessages, ended: Container[ProcessId]) -> None:
        self._processes = processes
        self._ended = ended
        self._local: dict[ProcessId, LocalAnswer] = {}

    def serve_locally(self, client: ProcessId, answer: LocalAnswer) -> None:
        """Take a part of the agent as a client: it is answered by calls."""
        self._local[client] = answer

    def is_local(self, client: ProcessId) -> bool:
        """Return whether a client is a part of the agent."""
        return client in self._local

    def have_lost(self, process: ProcessId) -> bool:
        """Return whether a process, here or elsewhere, has ended."""
        return process in self._ended

    def answer(self, step: contract.Reply | contract.Failed) -> None:
        """Send the answer to a request, or its error."""
        local = self._local.get(step.client)
        if isinstance(step, contract.Reply):
            if local is not None:
                local(step.request, step.value, None)
            else:
                self._processes.send(step.client, (op.REPLY, step.request, pickle.dumps(step.value)))
        elif local is not None:
            local(step.request, None, step.error)
        else:
            self._processes.send(step.client, (op.REPLY_ERROR, step.request, pickle.dumps(step.error)))

    def release_idle(self) -> None:
        """Ask all processes to release the objects that they no longer need."""
        self._processes.broadcast((op.STORE_RELEASE_IDLE,))
