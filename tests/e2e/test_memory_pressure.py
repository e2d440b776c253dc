"""Memory that runs out, over real processes: who is ended, what is said, what runs again. Limits are made up, small."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import kernel
from kernel import exceptions
from kernel.runtime.current import get_runtime
from kernel.testing.constants import constants

MIB = 1 << 20
SECONDS = 120.0


@kernel.remote
def hold(place: str, megabytes: int) -> int:
    """Note that it runs, hold memory until there is a file `go`, and return how often it was begun."""
    begun = Path(place, kernel.get_runtime_context().get_task_id())
    with begun.open("a") as file:
        file.write("x")
    kept = bytearray(b"x") * (megabytes * MIB)
    while not Path(place, "go").exists():
        time.sleep(0.01)
    del kept
    return len(begun.read_text())


@kernel.remote
class Keeper:
    """Keeps what it is told to."""

    def keep(self, megabytes: int, seconds: float = 600.0) -> None:
        self.kept = bytearray(b"x") * (megabytes * MIB)
        time.sleep(seconds)

    def ping(self) -> str:
        return "here"


def begun(place: Path) -> int:
    """Return how many runs were begun."""
    return sum(len(file.read_text()) for file in place.iterdir() if file.name != "go")


def ends() -> list[dict]:
    """Return which workers were ended for memory."""
    (memory,) = get_runtime().query("status")["memory"].values()
    return memory["ends"]


def test_a_task_that_never_fits_is_ended_and_the_error_says_it_all(fresh_session, tmp_path) -> None:
    fresh_session(memory_limit=300 * MIB, object_store_memory=32 * MIB)
    with pytest.raises(exceptions.OutOfMemoryError) as caught:
        kernel.get(hold.options(max_retries=0).remote(str(tmp_path), 400), timeout=SECONDS)
    text = re.sub(r"[0-9.]+ MiB|[0-9.]+%|pid \d+", "#", str(caught.value))
    node = kernel.nodes()[0]["NodeID"][:8]
    assert text == (
        f"task hold() was ended: memory ran out on node {node}: # of # (this node's memory_limit) were in use, #, and "
        "from # on a worker is ended. This one was chosen because it runs a task, though one that can't be run again "
        "and holds #, and no other worker was left to end. The largest workers: worker leased for hold() (#) #. It may "
        "not be run again (max_retries=0). Have it hold less at a time, reserve what it needs (memory=), or give the "
        "node more memory"
    )
    assert isinstance(caught.value, MemoryError)
    assert begun(tmp_path) == 1


def test_who_holds_most_loses_a_retry_each_time(fresh_session, tmp_path) -> None:
    fresh_session(memory_limit=300 * MIB, object_store_memory=32 * MIB)
    with pytest.raises(
        exceptions.OutOfMemoryError, match=r"It was run 2 times and has no retries left \(max_retries\)"
    ):
        kernel.get(hold.options(max_retries=1).remote(str(tmp_path), 400), timeout=SECONDS)
    assert begun(tmp_path) == 2


def test_only_the_hog_is_ended_beside_steady_tasks(fresh_session, tmp_path, eventually) -> None:
    fresh_session(num_cpus=4, memory_limit=600 * MIB, object_store_memory=32 * MIB)
    steady = [hold.remote(str(tmp_path), 10) for _ in range(3)]
    eventually(lambda: begun(tmp_path) == 3)
    with pytest.raises(exceptions.OutOfMemoryError):
        kernel.get(hold.options(max_retries=0).remote(str(tmp_path), 600), timeout=SECONDS)
    (tmp_path / "go").touch()
    assert kernel.get(steady, timeout=SECONDS) == [1, 1, 1]
    assert len(ends()) == 1


def test_a_task_that_was_in_the_way_runs_again_when_memory_is_free(fresh_session, tmp_path, eventually) -> None:
    fresh_session(num_cpus=3, memory_limit=420 * MIB, object_store_memory=32 * MIB)
    tasks = [hold.options(max_retries=1).remote(str(tmp_path), 120) for _ in range(3)]
    eventually(lambda: len(ends()) > 1)  # more often than its retries
    assert {end["fault"] for end in ends()} == {"crowded out"}
    (tmp_path / "go").touch()
    runs = kernel.get(tasks, timeout=SECONDS)
    assert sum(runs) == 3 + len(ends())
    assert max(runs) >= 2


def test_a_task_that_rests_says_so_and_can_be_cancelled(fresh_session, tmp_path, eventually) -> None:
    fresh_session(memory_limit=300 * MIB, object_store_memory=32 * MIB)
    ref = hold.options(max_retries=-1).remote(str(tmp_path), 400)
    eventually(lambda: "memory ran out, and is run again in" in kernel.explain(ref))
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)


def test_an_actor_beyond_its_quota_is_ended(fresh_session) -> None:
    fresh_session()
    keeper = Keeper.options(memory=80 * MIB).remote()
    assert kernel.get(keeper.ping.remote(), timeout=SECONDS) == "here"
    with pytest.raises(exceptions.OutOfMemoryError) as caught:
        kernel.get(keeper.keep.remote(200), timeout=SECONDS)
    text = re.sub(r"used [0-9.]+ MiB|for [0-9.]+ s|pid \d+", "#", str(caught.value))
    node = kernel.nodes()[0]["NodeID"][:8]
    assert text == (
        f"actor Keeper was ended: it # of memory #, more than its memory quota of 80.0 MiB (#, node {node}). It has no "
        "restarts left (max_restarts). Raise its memory=, or have it hold less at a time"
    )
    assert isinstance(caught.value, exceptions.ActorDiedError)
    with pytest.raises(exceptions.ActorOutOfMemoryError, match="more than its memory quota of"):
        kernel.get(keeper.ping.remote(), timeout=SECONDS)


def test_an_actor_with_restarts_left_comes_back(fresh_session) -> None:
    fresh_session()
    keeper = Keeper.options(memory=80 * MIB, max_restarts=1).remote()
    with pytest.raises(exceptions.ActorUnavailableError, match="more than its memory quota of"):
        kernel.get(keeper.keep.remote(200), timeout=SECONDS)
    assert kernel.get(keeper.ping.remote(), timeout=SECONDS) == "here"
    with pytest.raises(exceptions.OutOfMemoryError, match="It was restarted 1 times and has no restarts left"):
        kernel.get(keeper.keep.remote(200), timeout=SECONDS)


def test_an_actor_that_exceeds_its_quota_for_a_moment_lives(fresh_session) -> None:
    # A busy machine takes a second to free memory.
    with constants({"kernel.defaults.memory_guard.GRACE_SECONDS": 600.0}):
        fresh_session()
    keeper = Keeper.options(memory=80 * MIB).remote()
    kernel.get([keeper.keep.remote(200, 0.5), keeper.keep.remote(1, 0.0)], timeout=SECONDS)
    assert kernel.get(keeper.ping.remote(), timeout=SECONDS) == "here"


def test_tasks_are_held_to_their_memory_where_that_is_asked_for(fresh_session, tmp_path) -> None:
    fresh_session(memory_quotas="all")
    with pytest.raises(
        exceptions.OutOfMemoryError, match="It is not run again, because it would need as much. Raise its"
    ):
        kernel.get(hold.options(memory=80 * MIB).remote(str(tmp_path), 200), timeout=SECONDS)
    assert begun(tmp_path) == 1


def test_the_environment_sets_the_limit(fresh_session, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KERNEL_MEMORY_LIMIT", str(300 * MIB))
    monkeypatch.setenv("KERNEL_MEMORY_THRESHOLD", "0.5")
    fresh_session(object_store_memory=32 * MIB)
    with pytest.raises(exceptions.OutOfMemoryError, match=r"of 300.0 MiB .* from 50.0% on a worker is ended"):
        kernel.get(hold.options(max_retries=0).remote(str(tmp_path), 150), timeout=SECONDS)


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("KERNEL_MEMORY_LIMIT", "much", "KERNEL_MEMORY_LIMIT='much': invalid literal"),
        ("KERNEL_MEMORY_THRESHOLD", "2", "memory_threshold is a share of memory"),
        ("KERNEL_MEMORY_QUOTAS", "some", "memory_quotas must be 'actors', 'all' or 'none', not 'some'"),
    ],
)
def test_values_that_can_not_be_are_refused_at_once(fresh_session, monkeypatch, variable, value, words) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(exceptions.OptionError, match=words):
        fresh_session()


def test_the_machine_is_asked_to_end_a_worker_rather_than_anybody_else(fresh_session) -> None:
    fresh_session()

    @kernel.remote
    def score() -> int:
        return int(Path("/proc/self/oom_score_adj").read_text())

    assert kernel.get(score.remote(), timeout=SECONDS) == max(500, int(Path("/proc/self/oom_score_adj").read_text()))


# -- arguments that wait -------------------------------------------------------------------------------------------


@kernel.remote
def length(data: bytes, first: object = None) -> int:
    return len(data)


@kernel.remote
class Measure:
    """Does the same."""

    def length(self, data: bytes, first: object = None) -> int:
        return len(data)


@pytest.mark.parametrize("kind", ["task", "actor"])
def test_large_arguments_of_many_waiting_calls_go_to_the_store(
    fresh_session, tmp_path, monkeypatch, kind, eventually
) -> None:
    fresh_session()
    budget = get_runtime().tasks.budget
    monkeypatch.setattr(budget, "_budget", 1_000_000)
    gate = hold.remote(str(tmp_path), 0)
    call = length.remote if kind == "task" else Measure.remote().length.remote
    refs = [call(bytes(50_000 + number), gate) for number in range(100)]
    assert budget.waiting < 1_100_000
    assert get_runtime().query("memory", 1)["usage"]["objects"] >= 75
    (tmp_path / "go").touch()
    assert kernel.get(refs, timeout=SECONDS) == [50_000 + number for number in range(100)]
    eventually(lambda: budget.waiting == 0)  # counted once the result is there


def test_arguments_of_a_cancelled_call_count_no_more(fresh_session, tmp_path, eventually) -> None:
    fresh_session()
    gate = hold.remote(str(tmp_path), 0)
    ref = length.remote(bytes(50_000), gate)
    budget = get_runtime().tasks.budget
    assert budget.waiting > 50_000
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    eventually(lambda: budget.waiting == 0)  # counted once the result is there
    (tmp_path / "go").touch()


# -- quotas in the store -------------------------------------------------------------------------------------------


def test_a_program_may_hold_only_so_much_in_the_store(fresh_session) -> None:
    fresh_session(driver_object_store_memory=2 * MIB)
    first = kernel.put(b"x" * MIB)
    with pytest.raises(exceptions.ObjectStoreFullError) as caught:
        kernel.put(b"y" * (2 * MIB))
    assert (
        "may hold 2.0 MiB in the object store (its driver_object_store_memory) and holds 1.0 MiB in 1 objects"
        in str(caught.value)
    )
    del first
    assert len(kernel.get(kernel.put(b"y" * (2 * MIB - 4096)))) == 2 * MIB - 4096


def test_own_weak_objects_make_room(fresh_session) -> None:
    fresh_session(driver_object_store_memory=2 * MIB)
    weak = kernel.put(b"x" * MIB, weak=True)
    kept = kernel.put(b"y" * (MIB + MIB // 2))
    with pytest.raises(exceptions.ObjectLostError, match="was a weak object and was dropped, because the process that"):
        kernel.get(weak, timeout=SECONDS)
    assert len(kernel.get(kept)) == MIB + MIB // 2


@kernel.remote
class Maker:
    """Puts and returns."""

    def make(self, size: int) -> bytes:
        return b"x" * size

    def put(self, size: int) -> list:
        self.kept = [*getattr(self, "kept", []), kernel.put(b"x" * size)]
        return len(self.kept)


def test_an_actor_may_hold_only_so_much_in_the_store(fresh_session, eventually) -> None:
    fresh_session()
    maker = Maker.options(object_store_memory=2 * MIB).remote()
    first = maker.make.remote(MIB)
    kernel.wait([first], timeout=SECONDS)
    with pytest.raises(exceptions.ObjectStoreFullError, match=r"\(the object_store_memory of Maker\)"):
        kernel.get(maker.put.remote(MIB + MIB // 2), timeout=SECONDS)
    with pytest.raises(exceptions.ObjectStoreFullError, match=r"\(the object_store_memory of Maker\)"):
        kernel.get(maker.make.remote(MIB + MIB // 2), timeout=SECONDS)
    del first
    eventually(lambda: get_runtime().query("memory", 1)["usage"]["objects"] == 0)
    assert kernel.get(maker.put.remote(MIB + MIB // 2), timeout=SECONDS) == 1


def test_others_are_not_bound_by_it(fresh_session) -> None:
    fresh_session(driver_object_store_memory=MIB // 2)
    maker = Maker.remote()
    assert len(kernel.get(maker.make.remote(2 * MIB), timeout=SECONDS)) == 2 * MIB


def test_the_worker_of_a_task_is_bound_while_it_runs_such_tasks(fresh_session) -> None:
    fresh_session(num_cpus=1)

    @kernel.remote
    def make(size):
        return b"x" * size

    with pytest.raises(exceptions.ObjectStoreFullError, match=r"\(the object_store_memory of .*make\)"):
        kernel.get(make.options(object_store_memory=MIB).remote(2 * MIB), timeout=SECONDS)
    assert len(kernel.get(make.remote(2 * MIB), timeout=SECONDS)) == 2 * MIB
