"""Decide which worker ends when memory runs out, when and why. A pure state machine: samples in, instructions out.

Memory has run out when one of its limits (the machine's, a container's, the node's own) is used beyond `threshold`.
Then idle workers go, and of the others the one that costs least to repeat: a task that can be run again, then one that
can't, then an actor that can be restarted, then the rest. A kind that holds next to nothing is passed over, because
its end would not help. Among what costs the same, the big ones count; of these the newest of the program that has most.
What a worker has reserved (`memory=`) is its own: only what it holds beyond that counts as big.

A worker that exceeds its own quota for a while ends for that alone, whatever the node has left.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from kernel_spec.byte_sizes import readable
from kernel_spec.ids import ProcessId
from kernel_spec.memory_guards import (
    ACTOR,
    ENDING,
    IDLE,
    TASK,
    EndForMemory,
    MemoryLimit,
    MemorySettings,
    RetireWorker,
    WorkerMemory,
)
from kernel_spec.memory_words import ALL, CROWDED_OUT, NONE, OUT_OF_MEMORY, OVER_QUOTA

GRACE_SECONDS = 1.0
"""Seconds for which a worker may exceed its quota."""
SETTLE_SECONDS = 0.5
"""Seconds for memory use to fall after a process has ended."""
PATIENCE_SECONDS = 5.0
"""Seconds for a killed process to end, and for which an idle worker that refused to retire is left alone."""
LEAST_WAIT_SECONDS = 0.2
MOST_WAIT_SECONDS = 1.0
BYTES_PER_SECOND = 4 << 30
"""The fastest rate at which memory is expected to fill: the further the limit, the rarer the samples."""

_WORTHWHILE = 4
"""A kind of worker is passed over if all of it holds less than this part of the largest worker."""
_BIG = 2
"""Workers count as big from this part of the largest of their kind on."""
_SHOWN = 5


Instruction = RetireWorker | EndForMemory

_KINDS = (
    "it runs a task that can be run again",
    "it runs a task, though one that can't be run again",
    "it is an actor that can be restarted",
    "it is an actor, though one that can't be restarted",
    "it is idle, though others need what it owns",
)


class LocalMemoryGuard:
    """Decides which workers of one node are ended. Sizes of workers may be 0 where `needs_sizes` was false."""

    name = "cheapest"

    def __init__(self, settings: MemorySettings) -> None:
        self.node = settings.node
        self.threshold = settings.threshold
        self.quotas = settings.quotas
        self._asked: dict[ProcessId, float] = {}
        """Idle workers that were asked to end, and when."""
        self._over: dict[ProcessId, float] = {}
        """Workers beyond their quota, and since when."""
        self._ended: dict[ProcessId, float] = {}
        """Workers that were ended and whose processes may still exist, and when."""
        self._settled_at = 0.0
        self._history: deque[str] = deque(maxlen=200)

    def is_bound(self, kind: str) -> bool:
        """Return whether the quota of a worker of this kind is a limit."""
        return (kind == ACTOR and self.quotas != NONE) or (kind == TASK and self.quotas == ALL)

    def needs_sizes(self, limits: Sequence[MemoryLimit]) -> bool:
        """Return whether memory has run out: then every worker's size must be known."""
        return self.exhausted(limits) is not None

    def exhausted(self, limits: Iterable[MemoryLimit]) -> MemoryLimit | None:
        """Return the limit with the highest used share, if it is beyond the threshold."""
        fullest = max(limits, key=lambda limit: limit.share, default=None)
        if not self.threshold or fullest is None or fullest.share <= self.threshold:
            return None
        return fullest

    def wait(self, limits: Iterable[MemoryLimit]) -> float:
        """Return the seconds until the next sample: few when the free memory could be filled soon."""
        if not self.threshold:
            return MOST_WAIT_SECONDS
        room = min((self.threshold * limit.total - limit.used for limit in limits), default=float("inf"))
        return max(LEAST_WAIT_SECONDS, min(MOST_WAIT_SECONDS, room / BYTES_PER_SECOND))

    def sample(self, now: float, limits: Sequence[MemoryLimit], workers: Sequence[WorkerMemory]) -> list[Instruction]:
        """Take the memory in use at `now` (seconds of a monotonic clock); return the workers to end."""
        self._forget_gone(now, workers)
        steps: list[Instruction] = [*self._enforce_quotas(now, workers)]
        limit = self.exhausted(limits)
        if limit is None:
            return steps
        candidates = [worker for worker in workers if worker.kind != ENDING]
        idle = [worker for worker in candidates if worker.kind == IDLE]
        retire = [w for w in idle if now - self._asked.get(w.id, -PATIENCE_SECONDS) >= PATIENCE_SECONDS]
        for worker in retire:
            self._asked[worker.id] = now
            self._note(now, f"{worker.name or 'worker'} pid {worker.pid} is idle and asked to go")
            steps.append(RetireWorker(worker.id))
        if self._ended or now < self._settled_at:
            return steps
        if retire and sum(worker.size for worker in retire) >= limit.used - self.threshold * limit.total:
            self._settled_at = now + SETTLE_SECONDS
            return steps
        candidates = [worker for worker in candidates if worker not in retire]
        if candidates:
            steps.append(self._end(now, limit, candidates))
        return steps

    def story(self) -> str:
        """Return the latest decisions, one per line."""
        return "\n".join(self._history)

    def validate(self) -> None:
        """Raise AssertionError, with the story, when an invariant is broken."""
        twice = self._over.keys() & self._ended.keys()
        assert not twice, f"workers that were ended are still held to their quota: {twice}\n{self.story()}"
        assert len(self._ended) < 2 or self.quotas != NONE, f"two were ended at a time for one limit\n{self.story()}"

    # -- inside ----------------------------------------------------------------------------------------------------

    def _forget_gone(self, now: float, workers: Sequence[WorkerMemory]) -> None:
        present = {worker.id for worker in workers}
        for book in (self._asked, self._over):
            for id in [id for id in book if id not in present]:
                del book[id]
        for id, when in list(self._ended.items()):
            if id not in present or now - when >= PATIENCE_SECONDS:
                del self._ended[id]
                self._settled_at = now + SETTLE_SECONDS

    def _enforce_quotas(self, now: float, workers: Sequence[WorkerMemory]) -> list[EndForMemory]:
        steps = []
        for worker in workers:
            bound = worker.reserved and self.is_bound(worker.kind) and worker.id not in self._ended
            if not bound or worker.size <= worker.reserved:
                self._over.pop(worker.id, None)
                continue
            since = self._over.setdefault(worker.id, now)
            if now - since >= GRACE_SECONDS:
                del self._over[worker.id]
                self._ended[worker.id] = now
                cause = (
                    f"it used {readable(worker.size)} of memory for {now - since:.1f} s, more than its memory quota of "
                    f"{readable(worker.reserved)} (pid {worker.pid}, node {self.node})"
                )
                self._note(now, f"{worker.name} pid {worker.pid} is ended: {cause}")
                steps.append(EndForMemory(worker.id, OVER_QUOTA, cause))
        return steps

    def _end(self, now: float, limit: MemoryLimit, candidates: Sequence[WorkerMemory]) -> EndForMemory:
        weights = {worker.id: worker.excess for worker in candidates}
        if not any(weights.values()):
            weights = {worker.id: worker.size for worker in candidates}
        group = _cheapest(candidates, weights)
        largest = max(weights[worker.id] for worker in group)
        big = [worker for worker in group if weights[worker.id] * _BIG >= largest]
        owners = Counter(worker.owner for worker in big)
        victim = max(big, key=lambda worker: (owners[worker.owner], worker.since, worker.id))
        alone = victim.size * 2 > sum(worker.size for worker in candidates)
        cause = (
            f"memory ran out on node {self.node}: {readable(limit.used)} of {readable(limit.total)} ({limit.name}) "
            f"were in use, {limit.share:.1%}, and from {self.threshold:.1%} on a worker is ended. "
            f"{_reason(victim, group, big)}{'' if len(candidates) > 1 else ', and no other worker was left to end'}. "
            f"The largest workers: {_largest(candidates)}"
        )
        self._ended[victim.id] = now
        self._note(now, f"{victim.name} pid {victim.pid} is ended: {cause}")
        self._over.pop(victim.id, None)
        return EndForMemory(victim.id, OUT_OF_MEMORY if alone else CROWDED_OUT, cause)

    def _note(self, now: float, what: str) -> None:
        self._history.append(f"{now:.2f} {what}")


def cost_of(worker: WorkerMemory) -> int:
    """Return a rank of the loss that the end of a worker would be: those of the lowest cost end first."""
    if worker.kind == IDLE:
        return 4  # one that was asked to go and stays: others need what it owns
    return (0 if worker.kind == TASK else 2) + (not worker.again)


def _cheapest(candidates: Sequence[WorkerMemory], weights: Mapping[ProcessId, int]) -> list[WorkerMemory]:
    """Return the workers whose end costs least, of those kinds whose end helps."""
    largest = max(weights.values())
    for cost in range(len(_KINDS)):
        group = [worker for worker in candidates if cost_of(worker) == cost]
        if group and sum(weights[worker.id] for worker in group) * _WORTHWHILE >= largest:
            return group
    raise AssertionError("the largest worker is of some kind")


def _reason(victim: WorkerMemory, group: Sequence[WorkerMemory], big: Sequence[WorkerMemory]) -> str:
    """Return why this worker was chosen."""
    text = f"This one was chosen because {_KINDS[cost_of(victim)]}"
    beyond = f" beyond the {readable(victim.reserved)} that it reserved" if victim.reserved else ""
    if len(group) == 1:
        return f"{text} and holds {readable(victim.size)}{beyond}"
    if len(big) == 1:
        return f"{text} and holds most of these, {readable(victim.size)}{beyond}"
    return f"{text} and is the newest of the {len(big)} big ones of these, with {readable(victim.size)}{beyond}"


def _largest(workers: Iterable[WorkerMemory]) -> str:
    rows = sorted(workers, key=lambda worker: (-worker.size, worker.pid))
    shown = [f"{worker.name or worker.kind} (pid {worker.pid}) {readable(worker.size)}" for worker in rows[:_SHOWN]]
    more = f" and {len(rows) - _SHOWN} smaller ones" if len(rows) > _SHOWN else ""
    return ", ".join(shown) + more
