"""References: as values, passed on from process to process, and gone when nobody needs them."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time

import numpy
import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


@kernel.remote
def read(refs):
    return kernel.get(list(refs))


@kernel.remote
class Keeper:
    def __init__(self):
        self.kept = None

    def keep(self, value):
        self.kept = value

    def take(self, data):
        self.kept = kernel.get(pickle.loads(data))

    def read_inside(self):
        return kernel.get(self.kept["inner"]).sum()

    def kept_ref(self):
        return self.kept

    def read(self):
        return kernel.get(self.kept)

    def put(self, value):
        return [kernel.put(value)]

    def drop(self):
        self.kept = None

    def pid(self):
        return os.getpid()

    def known(self):
        return len(kernel.api.session.ensure_session().ownership.objects)


def nothing_left():
    """Whether this driver knows no object, and the store is empty."""
    gc.collect()
    runtime = kernel.api.session.ensure_session()
    used = runtime.query("status")["store"]["used"]
    return not runtime.ownership.objects and not used


@pytest.fixture(autouse=True)
def leaves_nothing(session, eventually):
    """Every test here ends without a known object or a used byte in the store."""
    yield
    eventually(nothing_left)


def test_references_are_hashable_and_comparable():
    first, second = kernel.put(1), kernel.put(1)
    same = kernel.get(kernel.put([first]))[0]
    assert first == same and hash(first) == hash(same)
    assert first != second and first != 1
    assert {first: "a", second: "b"}[same] == "a"
    assert len({first, second, same}) == 2


def test_references_as_keys_travel():
    @kernel.remote
    def look_up(mapping):
        return {kernel.get(ref): name for ref, name in mapping.items()}

    assert kernel.get(look_up.remote({kernel.put(1): "one", kernel.put(2): "two"})) == {1: "one", 2: "two"}


def test_the_identifier():
    ref = kernel.put(1)
    assert len(ref.hex()) == 40
    assert bytes.fromhex(ref.hex()) == ref.binary()
    assert repr(ref) == f"ObjectRef({ref.hex()})"
    assert type(ref).__name__ == "ObjectRef"
    assert ref.task_id() == ref.binary()[:16]


def test_identifiers_are_unique():
    refs = [kernel.put(i) for i in range(1000)] + [identity.remote(i) for i in range(1000)]
    assert len({ref.hex() for ref in refs}) == 2000


def test_references_in_closures(fresh_session):
    """They live as long as the workers that know the function, so this has a session of its own."""
    fresh_session()
    ref = kernel.put("closed over")

    @kernel.remote
    def use():
        return kernel.get(ref)

    assert kernel.get([use.remote(), use.remote()]) == ["closed over"] * 2


def test_references_nested_deep_in_values():
    value = {"a": [(kernel.put(numpy.zeros(50_000)), {"b": kernel.put(2)})]}
    back = kernel.get(identity.remote(value))
    assert kernel.get(back["a"][0][0]).size == 50_000
    assert kernel.get(back["a"][0][1]["b"]) == 2


def test_a_stored_object_holds_the_references_inside_it():
    inner = kernel.put(numpy.full(50_000, 3))
    outer = kernel.put([inner])
    del inner
    gc.collect()
    kernel.get(identity.remote(1))
    assert kernel.get(kernel.get(outer)[0])[0] == 3


def test_a_pending_task_holds_its_arguments(eventually):
    @kernel.remote
    def late(array, refs):
        return int(array.sum()), int(kernel.get(refs[0]).sum())

    slow = nap.remote(0.3)
    ref = late.remote(kernel.put(numpy.ones(50_000)), [kernel.put(numpy.ones(60_000))])
    gc.collect()
    kernel.get(slow)
    assert kernel.get(ref) == (50_000, 60_000)


@kernel.remote
def nap(seconds):
    time.sleep(seconds)


@pytest.mark.parametrize("size", [1, 50_000], ids=["inline", "stored"])
def test_objects_made_in_tasks_belong_to_their_makers(size):
    @kernel.remote
    def make():
        return [kernel.put(numpy.full(size, i)) for i in range(3)]

    refs = kernel.get(make.remote())
    assert [int(kernel.get(ref)[0]) for ref in refs] == [0, 1, 2]
    assert [int(array[0]) for array in kernel.get(read.remote(refs))] == [0, 1, 2]


def test_a_reference_passed_on_to_a_third_process():
    keepers = [Keeper.remote() for _ in range(3)]
    (ref,) = kernel.get(keepers[0].put.remote(numpy.full(50_000, 5)))
    kernel.get(keepers[1].keep.remote([ref]))
    del ref
    (again,) = kernel.get(keepers[1].kept_ref.remote())
    kernel.get(keepers[2].keep.remote([again]))
    del again
    kernel.get(keepers[1].drop.remote())
    gc.collect()
    assert kernel.get(keepers[2].read.remote())[0][0] == 5


def test_a_reference_to_a_task_that_runs_passed_to_a_third_process():
    @kernel.remote
    def start():
        @kernel.remote
        def slow():
            time.sleep(0.3)
            return "late"

        return [slow.remote()]

    (ref,) = kernel.get(start.remote())
    assert kernel.get(read.remote([ref])) == ["late"]
    assert kernel.get(identity.remote(ref)) == "late"
    assert kernel.wait([ref], timeout=SECONDS) == ([ref], [])


def test_references_in_actor_state_keep_objects_alive(eventually):
    keeper = Keeper.remote()
    kernel.get(keeper.keep.remote([kernel.put(numpy.full(50_000, 9))]))
    gc.collect()
    kernel.get([identity.remote(i) for i in range(50)])
    assert kernel.get(keeper.read.remote())[0][0] == 9
    kernel.get(keeper.drop.remote())
    eventually(lambda: kernel.get(keeper.known.remote()) == 0)


def test_borrowed_references_as_arguments_are_resolved():
    keeper = Keeper.remote()
    (ref,) = kernel.get(keeper.put.remote("from an actor"))
    assert kernel.get(identity.remote(ref)) == "from an actor"
    assert kernel.get(identity.remote(value=ref)) == "from an actor"


def test_returning_what_was_given():
    ref = kernel.put(numpy.full(50_000, 1))
    (same,) = kernel.get(identity.remote([ref]))
    assert same == ref
    del ref
    assert kernel.get(same)[0] == 1


def test_references_through_many_hands():
    @kernel.remote
    def pass_on(refs, n):
        return refs if n == 0 else kernel.get(pass_on.remote(refs, n - 1))

    @kernel.remote
    def make(n):
        return kernel.get(pass_on.remote([kernel.put(numpy.full(50_000, 4))], n))

    for _ in range(3):
        (ref,) = kernel.get(make.remote(4))
        assert kernel.get(ref)[0] == 4
        del ref


def test_a_chain_of_references_to_references():
    ref = kernel.put("end")
    for _ in range(20):
        ref = kernel.put([ref])
    gc.collect()
    for _ in range(20):
        ref = kernel.get(ref)[0]
    assert kernel.get(ref) == "end"


def test_several_returns_are_freed_one_by_one(eventually):
    @kernel.remote(num_returns=3)
    def make():
        return [numpy.zeros(50_000) for _ in range(3)]

    first, second, third = make.remote()
    kernel.wait([first, second, third], num_returns=3)
    runtime = kernel.api.session.ensure_session()
    whole = runtime.query("status")["store"]["used"]
    del first, third
    eventually(lambda: 0 < runtime.query("status")["store"]["used"] <= whole // 2)
    assert kernel.get(second).size == 50_000


def test_results_dropped_before_they_are_made(eventually):
    @kernel.remote
    def make():
        return numpy.zeros(50_000), [kernel.put(numpy.zeros(50_000))]

    for _ in range(10):
        make.remote()
    assert kernel.get(identity.remote(1)) == 1


def test_failed_tasks_release_what_they_held():
    @kernel.remote
    def failing(array, refs):
        raise ValueError("no")

    ref = failing.remote(numpy.zeros(50_000), [kernel.put(numpy.zeros(50_000))])
    with pytest.raises(ValueError):
        kernel.get(ref)


def test_dead_workers_release_what_they_held():
    @kernel.remote(max_retries=1)
    def dying(array, refs):
        kernel.get(refs)
        os._exit(1)

    ref = dying.remote(numpy.zeros(50_000), [kernel.put(numpy.zeros(50_000))])
    with pytest.raises(exceptions.WorkerDiedError):
        kernel.get(ref, timeout=SECONDS)


def test_an_idle_program_frees_what_it_dropped(eventually):
    ref = kernel.put(numpy.zeros(50_000))
    runtime = kernel.api.session.ensure_session()
    assert runtime.query("status")["store"]["used"] > 0
    del ref
    deadline = time.monotonic() + SECONDS
    while runtime.ownership.objects and time.monotonic() < deadline:
        time.sleep(0.02)  # asks nothing of the session meanwhile
    assert not runtime.ownership.objects


def test_what_a_program_pickles_itself_is_freed_when_who_collected_it_lets_go(eventually):
    eventually(nothing_left)
    inner = kernel.put(numpy.zeros(50_000))
    outer = kernel.put({"inner": inner})
    with kernel.collect_references() as references:
        data = pickle.dumps(outer)
    assert references == [outer]
    keeper = Keeper.remote()
    kernel.get(keeper.take.remote(data))
    del outer, inner, references
    assert kernel.get(keeper.read_inside.remote()) == 0.0
    kernel.get(keeper.drop.remote())
    del keeper
    eventually(nothing_left)


def test_the_owners_death_is_told(eventually):
    keeper = Keeper.remote()
    pid = kernel.get(keeper.pid.remote())
    small, large = (kernel.get(keeper.put.remote(value))[0] for value in ("small", numpy.zeros(50_000)))
    holder = Keeper.remote()
    kernel.get(holder.keep.remote([small]))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
    for ref in (small, large):
        with pytest.raises(exceptions.OwnerDiedError, match=rf"object {ref.hex()} is lost: its owner, process"):
            kernel.get(ref, timeout=SECONDS)
    with pytest.raises(exceptions.ObjectLostError):
        kernel.get(identity.remote(small), timeout=SECONDS)
    with pytest.raises(exceptions.OwnerDiedError):
        kernel.get(holder.read.remote(), timeout=SECONDS)


def test_an_owner_that_does_not_answer_costs_a_get_little_more_than_its_time(monkeypatch):
    """A get gives the owner a moment to explain itself, and not as long as `kernel.explain` does."""
    monkeypatch.setattr("kernel_processes.runtime.inspection.PATIENCE_SECONDS", 600.0)

    @kernel.remote
    class Owner:
        def begin(self):
            return [nap.remote(600)], os.getpid()

    owner = Owner.remote()
    (ref,), pid = kernel.get(owner.begin.remote())
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(exceptions.GetTimeoutError, match="belongs to process .* which does not answer"):
        kernel.get(ref, timeout=0.1)
    assert time.monotonic() - begun < SECONDS
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(exceptions.OwnerDiedError):
        kernel.get(ref, timeout=SECONDS)
    kernel.cancel(ref)  # its owner is gone, and its task with it


def test_a_reference_pickled_by_other_means_stays_good():
    """Who pickles by hand can't be counted; the object lives as long as the session."""
    runtime = kernel.api.session.ensure_session()
    data = pickle.dumps(kernel.put("by hand"))
    gc.collect()
    kernel.get(identity.remote(1))
    assert kernel.get(pickle.loads(data)) == "by hand"
    runtime._forever.clear()


def test_explaining_a_ready_reference():
    assert "is ready" in kernel.explain(kernel.put(1))


def answer_of_all(runtime):
    """Return what all processes say of their memory, or None when one was too busy to answer."""
    report = runtime.query("memory", 100)
    return None if report["silent"] else report


def test_memory_names_holders_and_places(eventually):
    runtime = kernel.api.session.ensure_session()
    ref = kernel.put(numpy.zeros(50_000))
    view = kernel.get(ref)
    report = eventually(lambda: answer_of_all(runtime))
    assert [row[0] for row in report["stored"]] == [ref.binary()]
    driver = next(one for one in report["processes"] if one["role"] == "driver")
    mine = next(row for row in driver["rows"] if row[0] == ref.binary())
    assert "PINNED_IN_MEMORY" in mine
    assert any("put object" in str(cell) and "test_objects_references.py" in str(cell) for cell in mine)
    del view


@pytest.mark.parametrize("made_by", ["put", "task"])
def test_a_chain_of_references_longer_than_the_stack_is_freed(made_by, eventually):
    runtime = kernel.api.session.ensure_session()
    gc.collect()
    before = len(runtime.ownership.objects)
    ref = kernel.put(None)
    for _ in range(2000):
        ref = kernel.put([ref]) if made_by == "put" else identity.remote([ref])
    kernel.wait([ref])
    assert len(runtime.ownership.objects) >= before + 2000
    del ref
    eventually(lambda: len(runtime.ownership.objects) <= before)
