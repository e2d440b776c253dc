"""Who is ended when memory runs out: the order, the reasons, the pauses, quotas, and the rules under any load."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kernel.conformance.memory_guard import MemoryGuardConformance
from kernel.defaults.memory_guard import (
    GRACE_SECONDS,
    LEAST_WAIT_SECONDS,
    MOST_WAIT_SECONDS,
    PATIENCE_SECONDS,
    SETTLE_SECONDS,
    LocalMemoryGuard,
    cost_of,
)
from kernel_spec.byte_sizes import readable
from kernel_spec.errors import OptionError
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
from kernel_spec.memory_words import ALL, CROWDED_OUT, NONE, OUT_OF_MEMORY, OVER_QUOTA, check_quotas, check_threshold

MIB = 1 << 20
GIB = 1 << 30
ROOMY = [MemoryLimit("this machine's memory", 8 * GIB, 16 * GIB)]
FULL = [MemoryLimit("this machine's memory", int(15.5 * GIB), 16 * GIB)]
_pids = itertools.count(100)


class TestLocalMemoryGuard(MemoryGuardConformance):
    make_guard = staticmethod(LocalMemoryGuard)


def worker(name: str, size: int, kind: str = TASK, **details: object) -> WorkerMemory:
    """Return a worker that holds `size` bytes; tasks can be run again unless told otherwise."""
    pid = next(_pids)
    given = {"again": True, "owner": b"driver", "since": 1.0, **details}
    return WorkerMemory(ProcessId(pid.to_bytes(8, "big")), pid, name, kind, size, **given)  # type: ignore[arg-type]


def ended(policy: LocalMemoryGuard, *workers: WorkerMemory, now: float = 10.0) -> str:
    """Return the name of the one worker that a policy ends when memory is full."""
    (step,) = policy.sample(now, FULL, workers)
    assert isinstance(step, EndForMemory)
    policy.validate()
    return next(one.name for one in workers if one.id == step.worker)


def make(**options: object) -> LocalMemoryGuard:
    return LocalMemoryGuard(MemorySettings("ab12cd34", **options))  # type: ignore[arg-type]


def test_nobody_is_ended_while_there_is_memory() -> None:
    assert make().sample(0.0, ROOMY, [worker("a()", 4 * GIB)]) == []


def test_nothing_is_known_of_memory_and_nobody_is_ended() -> None:
    assert make().sample(0.0, [], [worker("a()", 4 * GIB)]) == []


def test_the_fullest_limit_counts() -> None:
    container = MemoryLimit("the limit of the control group /job", 990 * MIB, 1000 * MIB)
    (step,) = make().sample(0.0, [*ROOMY, container], [worker("a()", 500 * MIB)])
    assert "990.0 MiB of 1000.0 MiB (the limit of the control group /job) were in use, 99.0%" in step.cause  # type: ignore[union-attr]


def test_a_threshold_of_zero_ends_nobody() -> None:
    policy = make(threshold=0)
    assert policy.sample(0.0, FULL, [worker("a()", 4 * GIB)]) == []
    assert policy.wait(FULL) == MOST_WAIT_SECONDS


def test_the_cheapest_to_repeat_goes_first() -> None:
    order = [
        worker("again()", GIB),
        worker("once()", GIB, again=False),
        worker("Restarted", GIB, ACTOR),
        worker("Single", GIB, ACTOR, again=False),
    ]
    for position, expected in enumerate(order):
        assert ended(make(), *reversed(order[position:])) == expected.name


def test_of_equals_the_newest_goes() -> None:
    assert ended(make(), worker("old()", GIB, since=1.0), worker("new()", GIB, since=2.0)) == "new()"


def test_of_two_programs_that_with_more_workers_gives_one_up() -> None:
    many = [worker(f"many{number}()", GIB, owner=b"x", since=float(number)) for number in range(3)]
    assert ended(make(), *many, worker("only()", GIB, owner=b"y", since=9.0)) == "many2()"


def test_a_hog_goes_before_the_steady_ones_beside_it() -> None:
    steady = [worker(f"steady{number}()", 100 * MIB, since=5.0) for number in range(7)]
    assert ended(make(), *steady, worker("hog()", 4 * GIB, since=1.0)) == "hog()"


def test_tasks_that_hold_next_to_nothing_are_spared() -> None:
    small = [worker(f"small{number}()", 30 * MIB) for number in range(5)]
    assert ended(make(), *small, worker("Hog", 8 * GIB, ACTOR, again=False)) == "Hog"


def test_tasks_that_hold_much_together_go_before_an_actor() -> None:
    tasks = [worker(f"task{number}()", 200 * MIB, since=float(number)) for number in range(50)]
    assert ended(make(), worker("Model", 2 * GIB, ACTOR, again=False), *tasks) == "task49()"


def test_what_was_reserved_does_not_count() -> None:
    reserved = worker("reserved()", 6 * GIB, reserved=6 * GIB, since=9.0)
    assert ended(make(), reserved, worker("greedy()", 2 * GIB, reserved=GIB)) == "greedy()"


def test_when_all_keep_to_what_they_reserved_size_counts() -> None:
    small = worker("small()", GIB, reserved=2 * GIB, since=9.0)
    assert ended(make(), small, worker("large()", 5 * GIB, reserved=6 * GIB)) == "large()"


def test_the_message_says_it_all() -> None:
    hog = worker("hog()", 4 * GIB)
    others = [worker(f"w{number}()", (200 - number) * MIB) for number in range(6)]
    (step,) = make().sample(0.0, FULL, [*others, hog])
    assert isinstance(step, EndForMemory)
    assert step.cause == (
        "memory ran out on node ab12cd34: 15.5 GiB of 16.0 GiB (this machine's memory) were in use, 96.9%, and from "
        "95.0% on a worker is ended. This one was chosen because it runs a task that can be run again and holds most "
        f"of these, 4.0 GiB. The largest workers: hog() (pid {hog.pid}) 4.0 GiB, w0() (pid {others[0].pid}) 200.0 MiB, "
        f"w1() (pid {others[1].pid}) 199.0 MiB, w2() (pid {others[2].pid}) 198.0 MiB, w3() (pid {others[3].pid}) "
        "197.0 MiB and 2 smaller ones"
    )
    assert step.cause in make_story(hog, others)


def make_story(hog: WorkerMemory, others: list[WorkerMemory]) -> str:
    policy = make()
    policy.sample(0.0, FULL, [*others, hog])
    return policy.story()


def test_the_message_says_when_nobody_else_was_left() -> None:
    (step,) = make().sample(0.0, FULL, [worker("Only", 9 * GIB, ACTOR, again=False)])
    assert (
        "because it is an actor, though one that can't be restarted and holds 9.0 GiB, and no other worker was left"
        in (
            step.cause  # type: ignore[union-attr]
        )
    )


def test_who_held_most_is_told_apart_from_who_was_in_the_way() -> None:
    (alone,) = make().sample(0.0, FULL, [worker("hog()", 4 * GIB), worker("b()", GIB)])
    (crowded,) = make().sample(0.0, FULL, [worker(f"{name}()", GIB) for name in "abc"])
    assert (alone.fault, crowded.fault) == (OUT_OF_MEMORY, CROWDED_OUT)  # type: ignore[union-attr]


# -- pauses --------------------------------------------------------------------------------------------------------


def test_memory_has_time_to_fall_before_the_next_is_ended() -> None:
    policy = make()
    first, second = worker("first()", GIB, since=2.0), worker("second()", GIB)
    assert [step.worker for step in policy.sample(0.0, FULL, [first, second])] == [first.id]
    assert policy.sample(0.2, FULL, [first, second]) == []  # it is not gone yet
    assert policy.sample(0.4, FULL, [second]) == []  # it is, and memory falls
    assert policy.sample(0.4 + SETTLE_SECONDS - 0.01, FULL, [second]) == []
    assert [step.worker for step in policy.sample(0.4 + SETTLE_SECONDS, FULL, [second])] == [second.id]


def test_one_that_can_not_be_ended_does_not_hold_up_the_others() -> None:
    policy = make()
    stuck, second = worker("stuck()", GIB, since=2.0), worker("second()", GIB)
    policy.sample(0.0, FULL, [stuck, second])
    stuck = WorkerMemory(stuck.id, stuck.pid, stuck.name, ENDING, stuck.size)
    assert policy.sample(PATIENCE_SECONDS - 0.1, FULL, [stuck, second]) == []
    assert policy.sample(PATIENCE_SECONDS, FULL, [stuck, second]) == []
    assert [s.worker for s in policy.sample(PATIENCE_SECONDS + SETTLE_SECONDS, FULL, [stuck, second])] == [second.id]


def test_idle_workers_go_first_and_alone_if_that_is_enough() -> None:
    policy = make()
    idle, busy = worker("", 400 * MIB, IDLE), worker("busy()", GIB)
    assert policy.sample(0.0, FULL, [idle, busy]) == [RetireWorker(idle.id)]
    assert policy.sample(SETTLE_SECONDS / 2, FULL, [busy]) == []
    assert [step.worker for step in policy.sample(SETTLE_SECONDS, FULL, [busy])] == [busy.id]


def test_idle_workers_that_hold_too_little_go_along_with_another() -> None:
    idle, busy = worker("", 20 * MIB, IDLE), worker("busy()", GIB)
    steps = make().sample(0.0, FULL, [idle, busy])
    assert [type(step) for step in steps] == [RetireWorker, EndForMemory]
    assert steps[1].worker == busy.id


def test_an_idle_worker_that_stays_is_left_alone_for_a_while_and_ended_last() -> None:
    policy = make()
    idle, busy = worker("", 6 * GIB, IDLE), worker("busy()", 4 * GIB)
    assert policy.sample(0.0, FULL, [idle, busy]) == [RetireWorker(idle.id)]
    (step,) = policy.sample(1.0, FULL, [idle, busy])
    assert step.worker == busy.id
    (step,) = policy.sample(3.0, FULL, [idle]) or policy.sample(4.0, FULL, [idle])
    assert isinstance(step, EndForMemory)
    assert "it is idle, though others need what it owns" in step.cause


def test_it_looks_more_often_the_nearer_the_limit_is() -> None:
    policy = make()
    assert policy.wait([]) == MOST_WAIT_SECONDS
    assert policy.wait([MemoryLimit("m", 0, 1000 * GIB)]) == MOST_WAIT_SECONDS
    assert policy.wait(FULL) == LEAST_WAIT_SECONDS
    assert LEAST_WAIT_SECONDS < policy.wait([MemoryLimit("m", 13 * GIB, 16 * GIB)]) < MOST_WAIT_SECONDS


# -- quotas --------------------------------------------------------------------------------------------------------


def over(kind: str = ACTOR) -> WorkerMemory:
    return worker("Greedy", 3 * GIB, kind, reserved=GIB)


def test_an_actor_may_exceed_its_quota_for_a_moment_only() -> None:
    policy, greedy = make(), over()
    assert policy.sample(0.0, ROOMY, [greedy]) == []
    assert policy.sample(GRACE_SECONDS / 2, ROOMY, [greedy]) == []
    (step,) = policy.sample(GRACE_SECONDS, ROOMY, [greedy])
    assert step == EndForMemory(
        greedy.id,
        OVER_QUOTA,
        f"it used 3.0 GiB of memory for 1.0 s, more than its memory quota of 1.0 GiB (pid {greedy.pid}, node ab12cd34)",
    )
    assert policy.sample(GRACE_SECONDS + 0.2, ROOMY, [greedy]) == []
    policy.validate()


def test_the_moment_begins_anew_when_it_kept_to_its_quota_in_between() -> None:
    policy, greedy = make(), over()
    policy.sample(0.0, ROOMY, [greedy])
    modest = WorkerMemory(greedy.id, greedy.pid, greedy.name, ACTOR, GIB, reserved=GIB)
    assert policy.sample(GRACE_SECONDS / 2, ROOMY, [modest]) == []
    assert policy.sample(GRACE_SECONDS, ROOMY, [greedy]) == []


@pytest.mark.parametrize(
    ("quotas", "kind", "bound"),
    [("actors", ACTOR, True), ("actors", TASK, False), (ALL, TASK, True), (ALL, ACTOR, True), (NONE, ACTOR, False)],
)
def test_whose_quota_is_a_limit(quotas: str, kind: str, bound: bool) -> None:
    policy, greedy = make(quotas=quotas), over(kind)
    assert policy.is_bound(kind) is bound
    policy.sample(0.0, ROOMY, [greedy])
    assert bool(policy.sample(GRACE_SECONDS, ROOMY, [greedy])) is bound


def test_values_that_can_not_be() -> None:
    with pytest.raises(OptionError, match=r"memory_threshold is a share of memory from 0 .* to 1, not 1.5"):
        check_threshold(1.5)
    with pytest.raises(OptionError, match="memory_quotas must be 'actors', 'all' or 'none', not 'some'"):
        check_quotas("some")


def test_sizes_are_readable() -> None:
    shown = [readable(size) for size in (12, 2048, 5 * MIB, 3 * GIB, 4096 * GIB)]
    assert shown == ["12 bytes", "2.0 KiB", "5.0 MiB", "3.0 GiB", "4096.0 GiB"]


# -- properties ----------------------------------------------------------------------------------------------------

uses = st.builds(
    worker,
    st.sampled_from(["a()", "b()", "C"]),
    st.integers(1, 8 * GIB),
    st.sampled_from([TASK, TASK, ACTOR, IDLE, ENDING]),
    again=st.booleans(),
    owner=st.sampled_from([b"x", b"y"]),
    since=st.floats(0, 100),
    reserved=st.sampled_from([0, 0, GIB]),
)


@given(st.lists(uses, max_size=12))
def test_the_choice_is_never_dearer_than_it_has_to_be(workers: list[WorkerMemory]) -> None:
    policy = make(quotas=NONE)
    ends = [step for step in policy.sample(0.0, FULL, workers) if isinstance(step, EndForMemory)]
    policy.validate()
    candidates = [one for one in workers if one.kind not in (ENDING, IDLE)]
    assert len(ends) <= 1
    if not ends:
        return
    victim = next(one for one in workers if one.id == ends[0].worker)
    assert victim in candidates
    weight = (lambda one: one.excess) if any(one.excess for one in candidates) else (lambda one: one.size)
    for cost in range(cost_of(victim)):
        cheaper = sum(weight(one) for one in candidates if cost_of(one) == cost)
        assert cheaper * 4 < max(map(weight, candidates)), "a cheaper kind was passed over though it holds enough"
    same = [one for one in candidates if cost_of(one) == cost_of(victim)]
    assert weight(victim) * 2 >= max(map(weight, same)), "a small one was ended before a big one of its kind"


class Node(RuleBasedStateMachine):
    """Workers come, grow and go under a policy; what it ends is gone some time later."""

    @initialize(quotas=st.sampled_from(["actors", ALL, NONE]))
    def begin(self, quotas: str) -> None:
        self.policy = make(quotas=quotas)
        self.now = 0.0
        self.workers: dict[ProcessId, WorkerMemory] = {}
        self.ending: list[ProcessId] = []
        self.gone_at = -100.0
        self.ends = 0

    @rule(use=uses.filter(lambda use: use.kind != ENDING))
    def starts(self, use: WorkerMemory) -> None:
        self.workers[use.id] = use

    @rule()
    def is_gone(self) -> None:
        if self.ending:
            self.workers.pop(self.ending.pop(0))
            self.gone_at = self.now

    @rule(full=st.booleans(), seconds=st.floats(0.05, 2.0))
    def looks(self, full: bool, seconds: float) -> None:
        self.now += seconds
        steps = self.policy.sample(self.now, FULL if full else ROOMY, list(self.workers.values()))
        crowd = [step for step in steps if isinstance(step, EndForMemory) and step.fault != OVER_QUOTA]
        assert full or not crowd, "somebody was ended though there was memory"
        assert len(crowd) <= 1
        if crowd and self.ending:
            assert self.now - self.last_end >= PATIENCE_SECONDS, "the one before was not gone"
        for step in steps:
            assert isinstance(step, RetireWorker) == (step.worker in self.workers and self._is_asked(step)), step
            if isinstance(step, EndForMemory):
                use = self.workers[step.worker]
                assert use.kind != ENDING, "it was ended twice"
                self.workers[use.id] = WorkerMemory(use.id, use.pid, use.name, ENDING, use.size)
                self.ending.append(use.id)
                self.last_end = self.now

    def _is_asked(self, step: RetireWorker | EndForMemory) -> bool:
        return isinstance(step, RetireWorker) and self.workers[step.worker].kind == IDLE

    @invariant()
    def books_add_up(self) -> None:
        if hasattr(self, "policy"):
            self.policy.validate()


Node.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestNode = Node.TestCase
