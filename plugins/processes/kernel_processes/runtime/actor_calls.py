"""Call actors: find each one, send calls in order, and handle its restart or death.

A channel is this process's side of one actor. Calls wait in it until the actor is there and until their arguments
are, strictly in the order they were made; then they go straight to the actor's process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import Any

from kernel.runtime.definitions import CallOptions
from kernel.runtime.object_entry import ObjectEntry
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_engine.tasks.tasks import TaskTable
from kernel_processes.runtime.process import Peer, Process
from kernel_processes.transport.addresses import gateway_of
from kernel_processes.transport.connection import Connection
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ActorDiedError, ActorUnavailableError
from kernel_spec.ids import ActorId, ProcessId

PENDING = "PENDING_CREATION"
ALIVE = "ALIVE"
RESTARTING = "RESTARTING"
DEAD = "DEAD"

_LAST_WORDS_SECONDS = 2.0
"""Seconds for which the connection to an ended process may stay open before its calls are given up."""

_SILENCE_SECONDS = 2.0
"""Seconds to wait for the news of an actor's death after its connection ended; then the head is asked."""
_NOBODY = ProcessId(b"")


@dataclass(slots=True, eq=False)
class Channel:
    """Holds one actor, as its caller sees it. `name` is for errors, `place` is where its process was last.

    `entry` is the object whose references are the actor's handles, if they are counted; `owned`: by this process.
    It is kept, and with it the actor, until the calls made here have ended, even if the last handle is gone
    (`forgotten`). `crashed`: its last process ended without an order to end. `news` of the actor waits while
    messages of its process, which has ended, may still arrive. `doubted`: the connection to the process ended, and the
    head was asked whether the process lives.
    """

    id: ActorId
    name: str = "actor"
    state: str = PENDING
    worker: ProcessId = _NOBODY
    place: str = ""
    connection: Any = None
    attempt: int = 0
    cause: str = ""
    crashed: bool = False
    failure: tuple[int, bytes] | None = None
    queue: deque[Task] = field(default_factory=deque)
    in_flight: dict[bytes, Task] = field(default_factory=dict)
    subscribed: bool = False
    entry: ObjectEntry | None = None
    owned: bool = False
    detached: bool = False
    forgotten: bool = False
    news: list[op.ActorState] = field(default_factory=list)
    doubted: bool = False

    @property
    def actor(self) -> ActorId:
        """The actor, for what has a place of a task that may be an actor's or a worker's."""
        return self.id


class ActorCaller:
    """Sends the calls of this process to actors, through a channel for each. Runs under the process's lock."""

    def __init__(self, process: Process, table: TaskTable) -> None:
        self._process = process
        self._table = table
        self._arguments = table.arguments
        self.channels: dict[ActorId, Channel] = {}
        self._by_worker: dict[ProcessId, Channel] = {}
        self._ready: set[Channel] = set()
        process.handlers[number_of(op.ActorState)] = self._on_state
        process.on_peer_lost.append(self._on_peer_lost)
        process.after_batch(self._ready, self.dispatch)

    def channel(self, actor: ActorId, name: str = "", subscribe: bool = True) -> Channel:
        """Return the channel to `actor`; a new one asks the head for the actor's state."""
        channel = self.channels.get(actor)
        if channel is None:
            channel = self.channels[actor] = Channel(actor)
        if name:
            channel.name = name
        if subscribe and not channel.subscribed:
            channel.subscribed = True
            self._process.tell_agent(packed(op.SubscribeActor(actor=actor)))
        return channel

    def accept(self, channel: Channel, task: Task) -> None:
        """Take a new call."""
        self._table.register(task)
        task.place = channel
        ready = self._arguments.resolve(task, self._arguments_ready)
        if channel.state == DEAD:
            self._fail_dead(channel, task)
        elif ready and channel.connection is not None and not channel.queue:
            self._send(channel, task)
        else:
            channel.queue.append(task)

    def retry(self, task: Task) -> None:
        """Take a call that must be made again, before all later ones."""
        channel: Channel = task.place
        channel.queue.appendleft(task)
        self._ready.add(channel)

    def pending(self, channel: Channel) -> int:
        """Return how many calls are not finished."""
        return len(channel.queue) + len(channel.in_flight)

    def finished(self, task: Task) -> None:
        """A call ended."""
        channel: Channel = task.place
        channel.in_flight.pop(task.id, None)
        if channel.forgotten:
            self._ready.add(channel)

    def count_handles(self, channel: Channel, entry: ObjectEntry) -> None:
        """Let the actor live as long as `entry`, and `entry` as long as there are handles to it, or calls."""
        details = entry.more()
        if details.may_go is None:
            channel.entry = entry
            channel.owned = details.owner is None
            details.may_go = lambda: self._let_go(channel)

    def _let_go(self, channel: Channel) -> bool:
        """The last handle is gone: notify the owner (the agent, if this process owns it), unless calls are pending."""
        if channel.queue or channel.in_flight:
            channel.forgotten = True
            return False
        if channel.owned and (channel.state == PENDING or (channel.detached and channel.state != DEAD)):
            channel.forgotten = True  # The entry also keeps the constructor's arguments.
            return False
        channel.forgotten = False
        channel.entry = None
        if channel.failure is not None:
            self._table.failures.dropped(channel.failure, channel.id)
        self.channels.pop(channel.id, None)
        if channel.owned and channel.state != DEAD:
            self._process.tell_agent(packed(op.ForgetActor(actor=channel.id)))
        return True

    def dispatch(self) -> None:
        """Send calls that became ready, and release actors that are not needed any more."""
        while self._ready:
            channel = self._ready.pop()
            while channel.queue and channel.connection is not None and self._is_ready(channel.queue[0]):
                self._send(channel, channel.queue.popleft())
            if channel.forgotten and channel.entry is not None:
                self._table.ownership.free_unneeded(channel.entry)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _is_ready(self, task: Task) -> bool:
        """Return whether all arguments are there; start making those again that were lost while the call waited."""
        if task.slots is None or task.waiting or not self._arguments.is_lacking(task):
            return not task.waiting
        return self._arguments.resolve(task, self._arguments_ready)

    def _arguments_ready(self, task: Task) -> None:
        self._ready.add(task.place)

    def _send(self, channel: Channel, task: Task) -> None:
        failure = self._arguments.failure(task) if task.slots is not None else None
        if failure is not None:
            self._table.fail(task, *failure)
            return
        options: CallOptions = task.definition  # type: ignore[assignment]
        channel.in_flight[task.id] = task
        self._table.running[task.id] = task
        slots = self._arguments.message(task) if task.slots is not None else ()
        extra: Any = None
        if options.concurrency_group or options.backpressure or task.attempt:
            extra = {
                "group": options.concurrency_group,
                "backpressure": options.backpressure,
                "attempt": task.attempt,
            }
        self._process.send(
            channel.connection, (op.ACTOR_CALL, task.id, options.name, task.arguments, slots, options.returns, extra)
        )

    def _fail_dead(self, channel: Channel, task: Task) -> None:
        if channel.failure is not None:
            self._table.fail(task, *channel.failure)
            return
        self._table.fail_with(task, self._death_of(channel, task))

    def _death_of(self, channel: Channel, task: Task) -> ActorDiedError:
        return ActorDiedError(
            f"{channel.name}.{task.definition.name}() failed because the actor ({channel.id.hex()[:12]}) is dead: "
            f"{channel.cause or 'it has ended'}",
            actor_id=channel.id.hex(),
        )

    def _on_state(self, connection: Connection, message: Message) -> None:
        said = unpacked(op.ActorState, message)
        channel = self.channels.get(said.actor)
        if channel is None:
            return
        if channel.news or (said.state in (RESTARTING, DEAD) and channel.connection is not None):
            channel.news.append(said)  # Results that the process had sent may still arrive.
            if len(channel.news) == 1:
                channel.connection = None
                self._process.reactor.call_later(_LAST_WORDS_SECONDS, lambda: self._stop_listening(channel, said))
            return
        self._take_news(channel, said)

    def _stop_listening(self, channel: Channel, said: op.ActorState) -> None:
        """Treat the process as ended, as the agent reports, although a fork of it may hold the connection open."""
        with self._process.lock:
            if channel.news and channel.news[0] is said:
                self._catch_up(channel)
                self.dispatch()

    def _catch_up(self, channel: Channel) -> None:
        news, channel.news = channel.news, []
        for said in news:
            self._take_news(channel, said)

    def _take_news(self, channel: Channel, said: op.ActorState) -> None:
        _, state, worker, address, attempt, cause, failure, crashed = said
        channel.cause, channel.crashed = cause, crashed
        if state == ALIVE and (channel.state != ALIVE or channel.worker != worker):
            self._became_alive(channel, worker, address, attempt)
        elif state == ALIVE and channel.doubted and channel.connection is None:
            self._recover(channel, final=False, why="could not be reached for too long")
            self._became_alive(channel, worker, address, attempt)
        elif state == RESTARTING:
            channel.state = RESTARTING
            self._disconnect(channel)
            self._recover(channel, final=False, why=f"died and is restarting: {cause}")
        elif state == DEAD and channel.state != DEAD:
            channel.state = DEAD
            channel.failure = tuple(failure) if failure else None
            if channel.failure is not None and channel.owned:
                self._table.failures.constructor_failed(channel.id, channel.name, channel.failure)
            self._disconnect(channel)
            self._recover(channel, final=True, why=cause)
            while channel.queue:
                self._fail_dead(channel, channel.queue.popleft())
        if channel.forgotten:
            self._ready.add(channel)

    def _became_alive(self, channel: Channel, worker: ProcessId, address: str, attempt: int) -> None:
        self._disconnect(channel)
        channel.doubted = False
        try:
            peer = self._process.peer(worker, address)
        except OSError:
            return  # The worker died at once: the agent will report it.
        channel.state = ALIVE
        channel.worker = worker
        channel.place = gateway_of(address) or self._process.identity.gateway
        channel.attempt = attempt
        channel.connection = peer
        self._by_worker[worker] = channel
        self._ready.add(channel)

    def _disconnect(self, channel: Channel) -> None:
        self._by_worker.pop(channel.worker, None)
        channel.connection = None

    def _on_peer_lost(self, peer: Peer, reason: str) -> None:
        channel = self._by_worker.pop(peer.id, None)
        if channel is not None:
            channel.connection = None  # The agent will report whether it restarts.
            self._catch_up(channel)
            if channel.state == ALIVE:
                self._process.reactor.call_later(_SILENCE_SECONDS, lambda: self._ask_again(channel, peer.id))

    def _ask_again(self, channel: Channel, worker: ProcessId) -> None:
        """Ask for an actor whose connection ended without news of its death: it may only have been cut off."""
        with self._process.lock:
            lost = channel.state == ALIVE and channel.worker == worker and channel.connection is None
            if lost and self.channels.get(channel.id) is channel and not self._process.closing:
                channel.doubted = True
                self._process.tell_agent(packed(op.SubscribeActor(actor=channel.id)))
        self._process.flush()

    def _recover(self, channel: Channel, final: bool, why: str) -> None:
        """Retry, or fail, the calls that were in flight when the process died, or could not be reached."""
        tasks = list(channel.in_flight.values())
        channel.in_flight.clear()
        again = []
        for task in tasks:
            self._table.ownership.clear_away(task.all_entries(), channel.place)
            if final:
                self._table.running.pop(task.id, None)
                self._fail_dead(channel, task)
                continue
            error = ActorUnavailableError(
                f"{channel.name}.{task.definition.name}() may or may not have run: the actor ({channel.id.hex()[:12]}) "
                f"{why}. Set max_task_retries to have such calls made again",
                actor_id=channel.id.hex(),
            )
            if self._table.retry_or_fail(task, error):
                task.place = channel
                again.append(task)
        channel.queue.extendleft(reversed(again))

    def cancel(self, task: Task, recursive: bool) -> None:
        """Cancel a call: one that waits never runs, one that runs is interrupted in the actor."""
        channel: Channel = task.place
        if task.id in channel.in_flight:
            task.cancelled = True
            if channel.connection is not None:
                self._process.send(channel.connection, packed(op.CancelTask(task=task.id, recursive=recursive)))
        elif not task.cancelled:
            task.cancelled = True
            channel.queue.remove(task)
            self._ready.add(channel)
            self._table.fail_with(task, cancelled_error(task))
            self.dispatch()

    def explain(self, task: Task) -> str:
        """Return a text that says what a call is waiting for, as far as this process knows."""
        channel: Channel = task.place
        label = f"{channel.name}.{task.definition.name}()"
        if task.id in channel.in_flight:
            position = list(channel.in_flight).index(task.id)
            if position:
                return f"{label} was sent and is behind {position} earlier calls of this process"
            return f"{label} is running in actor {channel.id.hex()[:12]}, worker {channel.worker.hex()[:8]}"
        waiting = [entry for _, entry in task.slots or () if entry.state == 0]
        if waiting:
            return f"{label} waits for {len(waiting)} of its arguments"
        if channel.state == ALIVE:
            return f"{label} waits for an earlier call whose arguments are not there yet"
        return f"{label} waits for the actor ({channel.id.hex()[:12]}), which is {channel.state}"
