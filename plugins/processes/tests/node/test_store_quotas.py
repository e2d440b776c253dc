"""What single processes may hold in the store: who is charged, what makes room, and what is said when there is none."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kernel_processes.node.store_quotas import StoreQuotas
from kernel_processes.node.worker_pool import LeasedWork, WorkerRecord
from kernel_spec.errors import ObjectStoreFullError
from kernel_spec.ids import ObjectId, ProcessId
from kernel_spec.store import StoredObject

MIB = 1 << 20
DRIVER = ProcessId(b"driver00")
WORKER = ProcessId(b"worker00")
_numbers = itertools.count(1)


def name(number: int) -> ObjectId:
    return ObjectId(number.to_bytes(20, "big"))


def row(object: ObjectId, weak: bool = False, pinned: bool = False, state: str = "sealed") -> StoredObject:
    return StoredObject(object, DRIVER, MIB, state, {WORKER: 1} if pinned else {}, weak)


class Books:
    """Quotas, and a store that holds what was made."""

    def __init__(self, limit: int = 3 * MIB) -> None:
        self.quotas = StoreQuotas()
        self.quotas.limit(DRIVER, limit, "its quota")
        self.rows: dict[ObjectId, StoredObject] = {}

    def make(self, number: int, size: int = MIB, **details: object) -> list[ObjectId]:
        object = name(number)
        dropped = self.quotas.room_for(DRIVER, object, size, self.rows.values)
        request = next(_numbers)
        self.quotas.asked(DRIVER, request, object, size)
        self.quotas.answered(DRIVER, request, failed=False)
        self.rows[object] = row(object, **details)  # type: ignore[arg-type]
        self.quotas.validate()
        for one in dropped:
            self.rows.pop(one, None)
        return dropped


def test_a_process_without_a_quota_is_not_limited() -> None:
    quotas = StoreQuotas()
    assert not quotas.is_limited(DRIVER)
    quotas.limit(DRIVER, 0, "its quota")
    assert not quotas.is_limited(DRIVER)


def test_what_fits_takes_no_room_from_others() -> None:
    books = Books()
    assert [books.make(number, weak=True) for number in range(3)] == [[], [], []]


def test_what_does_not_fit_is_refused_with_all_figures() -> None:
    books = Books()
    books.make(1)
    books.make(2)
    with pytest.raises(ObjectStoreFullError) as caught:
        books.make(3, 2 * MIB)
    assert str(caught.value) == (
        f"no space for object {name(3).hex()} of 2.0 MiB: process {DRIVER.hex()} may hold 3.0 MiB in the object store "
        "(its quota) and holds 2.0 MiB in 2 objects. Drop references that are no longer needed, put less at a time, or "
        "raise the quota"
    )


def test_own_weak_objects_make_room_the_oldest_first() -> None:
    books = Books()
    books.make(1)
    books.make(2, weak=True)
    books.make(3, weak=True)
    assert books.make(4) == [name(2)]
    assert books.quotas.dropped == {name(2)}


@pytest.mark.parametrize("details", [{"pinned": True}, {"state": "writing"}])
def test_weak_objects_in_use_stay(details) -> None:
    books = Books(MIB)
    books.make(1, weak=True, **details)
    with pytest.raises(ObjectStoreFullError):
        books.make(2)
    assert not books.quotas.dropped


def test_what_the_store_dropped_by_itself_is_not_charged() -> None:
    books = Books(MIB)
    books.make(1, weak=True)
    books.rows.clear()
    assert books.make(2) == [name(1)]


def test_nothing_is_dropped_when_that_would_not_help() -> None:
    books = Books()
    books.make(1, weak=True)
    books.make(2)
    with pytest.raises(ObjectStoreFullError):
        books.make(3, 3 * MIB)
    assert not books.quotas.dropped


def test_what_is_no_longer_needed_or_given_up_makes_room() -> None:
    books = Books(MIB)
    books.make(1)
    with pytest.raises(ObjectStoreFullError):
        books.make(2)
    books.quotas.gone([name(1)])
    assert books.make(2) == []


def test_what_the_store_refused_is_not_charged() -> None:
    books = Books(MIB)
    books.quotas.asked(DRIVER, 7, name(1), MIB)
    books.rows[name(1)] = row(name(1), state="writing")
    with pytest.raises(ObjectStoreFullError):
        books.make(2)
    books.quotas.answered(DRIVER, 7, failed=True)
    assert books.make(2) == []


def test_an_object_that_is_made_anew_is_charged_once() -> None:
    books = Books(2 * MIB)
    books.make(1)
    books.make(1, 2 * MIB)
    with pytest.raises(ObjectStoreFullError):
        books.make(2, 1)


def test_a_worker_may_hold_what_it_was_leased_with() -> None:
    quotas = StoreQuotas()
    quotas.limit_worker(WorkerRecord(WORKER, (b"job", ""), work=LeasedWork("Model", store=MIB)))
    with pytest.raises(ObjectStoreFullError, match=r"may hold 1.0 MiB .* \(the object_store_memory of Model\)"):
        quotas.room_for(WORKER, name(1), MIB + 1, list)
    quotas.limit_worker(WorkerRecord(WORKER, (b"job", ""), work=LeasedWork("other")))
    assert not quotas.is_limited(WORKER)


class Accounts(RuleBasedStateMachine):
    """Two limited processes make and lose objects in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.quotas = StoreQuotas()
        self.requests = itertools.count()

    @rule(process=st.sampled_from([DRIVER, WORKER]), limit=st.integers(0, 10))
    def is_limited(self, process: ProcessId, limit: int) -> None:
        self.quotas.limit(process, limit, "a quota")

    @rule(
        process=st.sampled_from([DRIVER, WORKER]),
        number=st.integers(0, 6),
        size=st.integers(1, 5),
        weak=st.booleans(),
        failed=st.booleans(),
    )
    def makes(self, process: ProcessId, number: int, size: int, weak: bool, failed: bool) -> None:
        if not self.quotas.is_limited(process):
            return
        stored = [row(name(other), weak=weak) for other in range(7)]
        try:
            self.quotas.room_for(process, name(number), size, lambda: stored)
        except ObjectStoreFullError:
            return
        request = next(self.requests)
        self.quotas.asked(process, request, name(number), size)
        self.quotas.answered(process, request, failed)

    @rule(numbers=st.lists(st.integers(0, 6)))
    def are_gone(self, numbers: list[int]) -> None:
        self.quotas.gone(map(name, numbers))

    @rule(process=st.sampled_from([DRIVER, WORKER]))
    def leaves(self, process: ProcessId) -> None:
        self.quotas.left(process)

    @invariant()
    def books_add_up(self) -> None:
        self.quotas.validate()


Accounts.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAccounts = Accounts.TestCase
