"""The conformance suite for memory guards.

    from kernel_conformance.memory_guard import MemoryGuardConformance

    class TestMine(MemoryGuardConformance):
        make_guard = staticmethod(MyMemoryGuard)

It plays a node: time passes, workers hold memory, those that are ended are gone a moment later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from kernel_spec.ids import ProcessId
from kernel_spec.memory_guards import (
    ACTOR,
    ENDING,
    IDLE,
    TASK,
    EndForMemory,
    MemoryGuard,
    MemoryLimit,
    MemorySettings,
    RetireWorker,
    WorkerMemory,
)
from kernel_spec.memory_words import ALL, FAULTS, NONE, QUOTAS

GIB = 1 << 30
MOST_SECONDS = 60.0
"""Seconds that a guard may take to act, on the clock of the node that is played."""


class MemoryGuardConformance:
    """Every memory guard's tests."""

    make_guard: Callable[[MemorySettings], MemoryGuard]

    ends_somebody = True
    """It ends a worker when memory has run out and stays so."""
    enforces_quotas = True
    """It ends a worker that stays beyond a quota that is a limit."""

    def guard(self, **settings: object) -> MemoryGuard:
        """Return a fresh one."""
        return type(self).make_guard(MemorySettings("conformance", **settings))  # type: ignore[arg-type]

    def test_is_a_memory_guard_with_a_name(self) -> None:
        guard = self.guard()
        assert isinstance(guard, MemoryGuard), f"{type(guard).__name__} lacks a method of MemoryGuard"
        assert isinstance(guard.name, str) and guard.name and "," not in guard.name

    def test_nobody_ends_while_there_is_room(self) -> None:
        node = PlayedNode(self.guard(), 16 * GIB, 0)
        node.add(TASK, GIB)
        node.add(ACTOR, 2 * GIB)
        node.add(IDLE, GIB)
        node.play(MOST_SECONDS)
        assert node.steps == [], "memory has not run out"

    def test_somebody_ends_when_memory_has_run_out(self) -> None:
        if not self.ends_somebody:
            return
        for kind in (TASK, ACTOR):
            node = PlayedNode(self.guard(), 16 * GIB, 8 * GIB)
            node.add(kind, 4 * GIB)
            node.add(kind, 4 * GIB)
            node.play(MOST_SECONDS)
            assert node.ended, f"memory has run out, and in {MOST_SECONDS:.0f} s no {kind} was ended"
            assert node.share < 0.95, "it has ended some, and memory has still run out"

    def test_a_threshold_of_zero_ends_nobody(self) -> None:
        node = PlayedNode(self.guard(threshold=0.0, quotas=NONE), 16 * GIB, 8 * GIB)
        node.add(TASK, 8 * GIB)
        node.play(MOST_SECONDS)
        assert node.ended == []

    def test_who_exceeds_a_quota_that_is_a_limit_ends(self) -> None:
        if not self.enforces_quotas:
            return
        node = PlayedNode(self.guard(quotas=ALL), 64 * GIB, 0)
        over, within = node.add(ACTOR, 3 * GIB, reserved=2 * GIB), node.add(ACTOR, GIB, reserved=2 * GIB)
        node.play(MOST_SECONDS)
        assert node.ended == [over], f"{over} exceeds its quota, {within} does not; ended were {node.ended}"

    def test_a_reservation_that_is_no_limit_ends_nobody(self) -> None:
        node = PlayedNode(self.guard(quotas=NONE), 64 * GIB, 0)
        node.add(ACTOR, 3 * GIB, reserved=2 * GIB)
        node.add(TASK, 3 * GIB, reserved=2 * GIB)
        node.play(MOST_SECONDS)
        assert node.ended == []
        assert not any(node.guard.is_bound(kind) for kind in (IDLE, TASK, ACTOR, ENDING))

    def test_a_node_without_readings_or_workers_is_left_alone(self) -> None:
        guard = self.guard()
        assert list(guard.sample(0.0, [], [])) == []
        assert guard.wait([]) > 0
        assert not guard.needs_sizes([])
        full = [MemoryLimit("memory", 16 * GIB, 16 * GIB)]
        assert list(guard.sample(1.0, full, [])) == []
        assert guard.wait(full) > 0

    def test_any_history_keeps_to_the_contract(self) -> None:
        for seed in range(30):
            random = Random(seed)
            node = PlayedNode(self.guard(quotas=random.choice(QUOTAS)), 16 * GIB, random.randrange(8) * GIB)
            for _ in range(60):
                if random.random() < 0.5:
                    reserved = random.choice((0, 0, GIB))
                    node.add(random.choice((IDLE, TASK, ACTOR)), random.randrange(2 * GIB), reserved=reserved)
                node.play(random.random() * 2)


class PlayedNode:
    """A node with `total` bytes of memory, of which others hold `others`, and a guard. Checks each of its answers."""

    def __init__(self, guard: MemoryGuard, total: int, others: int) -> None:
        self.guard = guard
        self.steps: list[RetireWorker | EndForMemory] = []
        self.ended: list[ProcessId] = []
        self._now = 1000.0
        self._total = total
        self._others = others
        self._workers: dict[ProcessId, WorkerMemory] = {}
        self._made = 0

    @property
    def share(self) -> float:
        """How much of the memory is in use."""
        return self._limit.share

    def add(self, kind: str, size: int, reserved: int = 0) -> ProcessId:
        """Start a worker."""
        self._made += 1
        id = ProcessId(self._made.to_bytes(8, "big"))
        again = self._made % 2 == 1
        worker = WorkerMemory(id, 100 + self._made, "work", kind, size, again, b"owner", self._now, reserved)
        self._workers[id] = worker
        return id

    def play(self, seconds: float) -> None:
        """Let so much time pass."""
        end = self._now + seconds
        while self._now < end:
            self._look()
            wait = self.guard.wait([self._limit])
            assert wait > 0, f"wait() returned {wait}: the next look must be in the future"
            self._now += max(wait, 0.01)

    @property
    def _limit(self) -> MemoryLimit:
        used = self._others + sum(worker.size for worker in self._workers.values())
        return MemoryLimit("this machine's memory", min(used, self._total), self._total)

    def _look(self) -> None:
        limits = [self._limit]
        needed = self.guard.needs_sizes(limits)
        workers = [self._shown(worker, needed) for worker in self._workers.values()]
        for id in [worker.id for worker in workers if worker.kind == ENDING]:
            del self._workers[id]  # it is gone before the next look
        steps = self.guard.sample(self._now, limits, workers)
        self._check(steps, workers)
        for step in steps:
            self.steps.append(step)
            worker = self._workers.pop(step.worker)
            if isinstance(step, EndForMemory):
                self.ended.append(step.worker)
                self._workers[step.worker] = _other_kind(worker, ENDING)
        # One that was asked to retire is gone at once.

    def _shown(self, worker: WorkerMemory, needed: bool) -> WorkerMemory:
        bound = worker.reserved and self.guard.is_bound(worker.kind)
        return worker if needed or bound else _other_kind(worker, worker.kind, size=0)

    @staticmethod
    def _check(steps: Sequence[RetireWorker | EndForMemory], workers: Sequence[WorkerMemory]) -> None:
        kinds = {worker.id: worker.kind for worker in workers}
        named = [step.worker for step in steps]
        assert len(set(named)) == len(named), f"one worker was named twice: {steps}"
        for step in steps:
            assert isinstance(step, (RetireWorker, EndForMemory)), f"sample() returned {step!r}"
            assert step.worker in kinds, f"{step} is for a worker that the guard was not told of"
            assert kinds[step.worker] != ENDING, f"{step} is for a worker that ends already"
            if isinstance(step, RetireWorker):
                assert kinds[step.worker] == IDLE, f"{step} asks a worker to go that is not idle"
            else:
                assert step.fault in FAULTS, f"the fault {step.fault!r} is none of {FAULTS}"
                assert step.cause, "say why: people read it in the error"


def _other_kind(worker: WorkerMemory, kind: str, size: int | None = None) -> WorkerMemory:
    held = worker.size if size is None else size
    return WorkerMemory(
        worker.id, worker.pid, worker.name, kind, held, worker.again, worker.owner, worker.since, worker.reserved
    )
