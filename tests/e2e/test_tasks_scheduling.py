"""Where and when tasks run: resources, nesting, blocking, and what is said about tasks that can't run."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from contextlib import suppress

import numpy
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


def meet(directory, number):
    """Wait for `number` of those that share a directory to be there at once; return how many were, at most."""
    directory.mkdir(exist_ok=True)
    here = directory / str(os.getpid())
    here.touch()
    met, most = directory.with_name(f"{directory.name} met"), 0

    def together():
        nonlocal most
        most = max(most, len(list(directory.iterdir())))
        if most >= number:
            met.touch()
        return met.exists()

    wait_until(together, SECONDS, f"the meeting of {number}")
    time.sleep(0.1)  # others, for whom there is no room, would come
    together()
    here.unlink()
    return most


@pytest.fixture
def at_once(tmp_path):
    """`at_once(expected, count, **options)`: how many of `count` tasks run at once, of which `expected` wait for it."""

    def ask(expected, count, **options):
        task = kernel.remote(meet).options(**options)
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        return max(kernel.get([task.remote(directory, expected) for _ in range(count)], timeout=SECONDS))

    return ask


def test_no_more_runs_at_once_than_there_are_cpus(at_once):
    assert at_once(2, 6) == 2


def test_a_task_may_take_several_cpus_or_a_share(at_once):
    assert at_once(1, 3, num_cpus=2) == 1
    assert at_once(4, 8, num_cpus=0.5) == 4


def test_custom_resources_limit_what_runs(fresh_session, at_once):
    fresh_session(num_cpus=4, resources={"slot": 2, "half": 1})
    assert kernel.cluster_resources()["slot"] == 2
    assert at_once(2, 4, resources={"slot": 1}, num_cpus=0) == 2
    assert at_once(4, 8, resources={"half": 0.25}, num_cpus=0) == 4


def test_declared_gpus_are_counted_and_shared(fresh_session, tmp_path):
    fresh_session(num_cpus=4, num_gpus=2)

    @kernel.remote(num_gpus=1)
    def whole():
        assert meet(tmp_path / "whole", 2) == 2
        return kernel.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

    @kernel.remote(num_gpus=0.5, num_cpus=0)
    def half():
        assert meet(tmp_path / "half", 4) == 4
        return kernel.get_gpu_ids()

    found = kernel.get([whole.remote(), whole.remote()])
    assert sorted(ids for ids, _ in found) == [[0], [1]]
    assert sorted(variable for _, variable in found) == ["0", "1"]
    assert sorted(kernel.get([half.remote() for _ in range(4)])) == [[0], [0], [1], [1]]
    assert kernel.get_gpu_ids() == []


@kernel.remote
def devices():
    shown = kernel.get_runtime_context().get_accelerator_ids().get("GPU")
    return os.getpid(), kernel.get_gpu_ids(), shown, os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.mark.parametrize(("preset", "first"), [("3,5", "3"), ("GPU-abc,GPU-def", "GPU-abc")])
def test_gpus_are_called_what_the_program_calls_them(fresh_session, monkeypatch, preset, first):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", preset)
    fresh_session(num_cpus=2, num_gpus=2)
    _, ids, shown, variable = kernel.get(devices.options(num_gpus=1).remote(), timeout=SECONDS)
    assert (ids, shown, variable) == ([first], [first], first)
    _, ids, shown, variable = kernel.get(devices.options(num_gpus=2).remote(), timeout=SECONDS)
    assert (ids, shown, variable) == (preset.split(","), preset.split(","), preset)


def test_what_ran_without_a_gpu_or_with_another_gets_none(fresh_session):
    fresh_session(num_cpus=1, num_gpus=2)
    without = {kernel.get(devices.remote(), timeout=SECONDS)[0] for _ in range(3)}
    one = {kernel.get(devices.options(num_gpus=1).remote(), timeout=SECONDS)[0] for _ in range(3)}
    both = {kernel.get(devices.options(num_gpus=2).remote(), timeout=SECONDS)[0] for _ in range(3)}
    assert not without & one | without & both | one & both
    assert {kernel.get(devices.remote(), timeout=SECONDS)[0] for _ in range(3)}.isdisjoint(one | both)


def test_memory_is_a_resource_like_others(fresh_session, at_once):
    fresh_session(num_cpus=4, memory=1 << 30)
    assert at_once(1, 3, memory=600 << 20) == 1


def test_what_a_task_holds_can_be_asked():
    @kernel.remote(num_cpus=1.5)
    def held():
        return kernel.get_runtime_context().get_assigned_resources(), kernel.get_resource_ids()

    resources, ids = kernel.get(held.remote())
    assert resources == {"CPU": 1.5}
    assert ids == {"CPU": [(0, 1.5)]}


@kernel.remote
def wait_for_file(path):
    wait_until(path.exists, SECONDS, f"the making of {path}")


def test_what_is_free_can_be_asked(eventually, tmp_path):
    eventually(lambda: kernel.available_resources().get("CPU") == 2)
    ref = wait_for_file.remote(tmp_path / "end")
    eventually(lambda: kernel.available_resources().get("CPU") == 1)
    (tmp_path / "end").touch()
    kernel.get(ref)
    eventually(lambda: kernel.available_resources().get("CPU") == 2)


def test_custom_resources_can_come_and_go(eventually):
    wanted = identity.options(resources={"sudden": 1}).remote(1)
    assert kernel.wait([wanted], timeout=0.2) == ([], [wanted])
    kernel.set_resource("sudden", 1)
    assert kernel.get(wanted, timeout=SECONDS) == 1
    kernel.set_resource("sudden", 0)
    eventually(lambda: "sudden" not in kernel.cluster_resources())
    with pytest.raises(ValueError, match="must be zero or more"):
        kernel.set_resource("sudden", -1)


@pytest.mark.usefixtures("patient_explanations")
def test_what_can_never_run_waits_and_is_explained():
    ref = identity.options(resources={"unicorn": 1}).remote(1)
    assert kernel.wait([ref], timeout=0.3) == ([], [ref])
    explanation = kernel.explain(ref)
    assert "identity() waits for a worker" in explanation
    assert "unicorn" in explanation
    with pytest.raises(exceptions.GetTimeoutError, match="unicorn"):
        kernel.get(ref, timeout=0.1)
    assert kernel.get(identity.remote(2), timeout=SECONDS) == 2
    kernel.cancel(ref)


@pytest.mark.usefixtures("patient_explanations")
def test_a_get_that_times_out_says_what_it_waits_for(eventually, tmp_path):
    @kernel.remote
    def slow():
        (tmp_path / "begun").touch()
        wait_until((tmp_path / "end").exists, SECONDS, "the end of the questions")

    running = slow.remote()
    dependent = identity.remote(running)
    eventually((tmp_path / "begun").exists)
    with pytest.raises(TimeoutError, match=r"no result within 0.5 s: slow\(\) is running on worker"):
        kernel.get(running, timeout=0.5)
    with pytest.raises(exceptions.GetTimeoutError, match=r"identity\(\) waits for 1 of its arguments: slow\(\)"):
        kernel.get(dependent, timeout=0)
    (tmp_path / "end").touch()
    kernel.get(dependent)


def test_what_cannot_run_now_does_not_hold_up_the_rest(tmp_path):
    holder = wait_for_file.remote(tmp_path / "go")
    wide = identity.options(num_cpus=2).remote("wide")
    assert kernel.get([identity.remote(i) for i in range(20)], timeout=SECONDS) == list(range(20))
    (tmp_path / "go").touch()
    kernel.get(holder)
    assert kernel.get(wide, timeout=SECONDS) == "wide"


def test_a_long_task_does_not_hold_up_quick_ones_that_were_sent_behind_it(tmp_path):
    @kernel.remote
    def work(path):
        if path is not None:
            wait_until(path.exists, SECONDS, "the end of the quick ones")

    kernel.get([work.remote(None) for _ in range(200)])
    long, *quick = [work.remote(tmp_path / "quick"), *[work.remote(None) for _ in range(100)]]
    kernel.get(quick, timeout=SECONDS)
    (tmp_path / "quick").touch()
    kernel.get(long)


# -- nesting -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [1, 2])
def test_nested_gets_deeper_than_there_are_cpus(fresh_session, cpus):
    fresh_session(num_cpus=cpus)

    @kernel.remote
    def deep(n):
        return 0 if n == 0 else 1 + kernel.get(deep.remote(n - 1))

    assert kernel.get(deep.remote(8), timeout=SECONDS) == 8


def test_a_blocked_task_is_not_in_the_way_of_what_it_waits_for(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote
    def wait_for(refs):
        return kernel.get(refs[0])

    @kernel.remote
    def after(value):
        return value + 1

    @kernel.remote
    def slow():
        time.sleep(0.3)
        return 1

    kernel.get([wait_for.remote([kernel.put(1)]) for _ in range(100)])
    kernel.get([after.remote(1) for _ in range(100)])
    late = after.remote(slow.remote())
    assert kernel.get([wait_for.remote([late]) for _ in range(3)], timeout=SECONDS) == [2, 2, 2]


def test_wait_and_await_give_the_cpu_back_too(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote
    def waits():
        ready, _ = kernel.wait([identity.remote(i) for i in range(3)], num_returns=3)
        return sorted(kernel.get(ready))

    @kernel.remote
    def streams():
        @kernel.remote
        def numbers():
            yield from range(3)

        return [kernel.get(ref) for ref in numbers.remote()]

    assert kernel.get(waits.remote(), timeout=SECONDS) == [0, 1, 2]
    assert kernel.get(streams.remote(), timeout=SECONDS) == [0, 1, 2]


def test_a_blocked_task_keeps_its_gpu(fresh_session):
    fresh_session(num_cpus=2, num_gpus=1)

    @kernel.remote(num_gpus=1)
    def holder():
        child = identity.options(num_gpus=1).remote("child")
        ready, _ = kernel.wait([child], timeout=0.3)
        return len(ready), kernel.get_gpu_ids()

    assert kernel.get(holder.remote(), timeout=SECONDS) == (0, [0])


def test_tasks_return_references_of_their_own_tasks():
    @kernel.remote
    def start(n):
        return [identity.remote(i) for i in range(n)]

    assert kernel.get(kernel.get(start.remote(10))) == list(range(10))


def test_fan_out_of_fan_out():
    @kernel.remote
    def leaf(x):
        return x

    @kernel.remote
    def branch(n):
        return sum(kernel.get([leaf.remote(i) for i in range(n)]))

    assert kernel.get([branch.remote(20) for _ in range(20)], timeout=SECONDS) == [190] * 20


def test_recursive_fibonacci():
    @kernel.remote
    def fibonacci(n):
        if n < 2:
            return n
        return sum(kernel.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))

    assert kernel.get(fibonacci.remote(7), timeout=SECONDS) == 13


# -- strategies and hints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"scheduling_strategy": "DEFAULT"},
        {"scheduling_strategy": "SPREAD"},
        {"scheduling_hints": {"priority": 3}},
        {"scheduling_strategy": None},
    ],
)
def test_strategies_and_hints_are_accepted(options):
    assert kernel.get(identity.options(**options).remote(1)) == 1


def test_a_task_can_be_bound_to_a_node():
    node = kernel.nodes()[0]["NodeID"]
    strategy = {"type": "node_affinity", "node": node, "soft": False}
    ref = identity.options(scheduling_strategy=strategy).remote(1)
    assert kernel.get(ref, timeout=SECONDS) == 1


def test_an_unknown_strategy_is_refused_by_name():
    with pytest.raises(exceptions.OptionError, match="scheduling_strategy must be"):
        identity.options(scheduling_strategy="FASTEST")


def test_the_node_is_a_resource():
    address = kernel.nodes()[0]["NodeManagerAddress"]
    assert kernel.get(identity.options(resources={f"node:{address}": 0.01}).remote(3)) == 3


def test_results_that_are_dropped_do_not_disturb():
    for _ in range(200):
        identity.remote(numpy.zeros(10))
    assert kernel.get(identity.remote(1)) == 1


@kernel.remote
def until_there(path):
    wait_until(path.exists, SECONDS, str(path))
    return time.monotonic()


def side_by_side(spans):
    """Return how many of the spans (begin, end) overlap with the one that began before."""
    spans = sorted(spans)
    return sum(later[0] < earlier[1] for earlier, later in itertools.pairwise(spans))


@pytest.mark.parametrize("child_cpus", [0, 1])
def test_a_parent_takes_its_cpus_again_before_it_goes_on(fresh_session, child_cpus):
    fresh_session(num_cpus=2)

    @kernel.remote(num_cpus=2)
    def parent():
        kernel.get(slow.options(num_cpus=child_cpus).remote())
        begun = time.monotonic()
        time.sleep(0.3)
        return begun, time.monotonic()

    @kernel.remote
    def slow():
        time.sleep(0.3)

    spans = kernel.get([parent.remote() for _ in range(4)], timeout=SECONDS)
    assert side_by_side(spans) == 0, spans


def test_a_get_that_times_out_does_not_wait_for_the_cpu(fresh_session, tmp_path):
    fresh_session(num_cpus=1)
    go, timed_out = tmp_path / "go", tmp_path / "timed out"

    @kernel.remote
    def parent():
        try:
            kernel.get(until_there.options(num_cpus=0).remote(go), timeout=1)
        except TimeoutError:
            timed_out.touch()

    waiting = parent.remote()
    other = until_there.remote(timed_out)  # on the CPU that the parent lends, which it does not get back before
    kernel.get([waiting, other], timeout=SECONDS)
    go.touch()


def test_a_get_of_what_its_owner_has_gives_no_cpu_back(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote
    def reads(refs):
        values = [kernel.get(ref) for ref in refs]
        time.sleep(0.3)  # another would begin by now
        return values, time.monotonic()

    @kernel.remote
    def begins():
        return time.monotonic()

    refs = [kernel.put(number) for number in range(20)]
    first, second = reads.remote(refs), begins.remote()
    values, ended = kernel.get(first, timeout=SECONDS)
    assert values == list(range(20))
    assert kernel.get(second, timeout=SECONDS) > ended


def test_a_task_that_awaits_gives_its_cpu_back_and_takes_it_again(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote
    def numbers():
        yield from range(3)

    @kernel.remote
    def awaits():
        async def both():
            one, two = await asyncio.gather(identity.remote(1), identity.remote(2))
            return one + two

        return asyncio.run(both())

    @kernel.remote
    def iterates():
        async def all_of_it():
            return [await ref async for ref in numbers.remote()]

        return asyncio.run(all_of_it())

    @kernel.remote
    def gives_up():
        async def for_a_moment():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(never.remote().as_future(), 0.2)
            return "went on"

        return asyncio.run(for_a_moment())

    @kernel.remote(num_cpus=0)
    def never():
        time.sleep(SECONDS)

    @kernel.remote
    def forgets():
        async def nothing():
            never.remote().as_future()
            await asyncio.sleep(0.1)

        asyncio.run(nothing())
        return "ended"

    assert kernel.get(awaits.remote(), timeout=SECONDS) == 3
    assert kernel.get(iterates.remote(), timeout=SECONDS) == [0, 1, 2]
    assert kernel.get(gives_up.remote(), timeout=SECONDS) == "went on"
    assert kernel.get([forgets.remote() for _ in range(2)], timeout=SECONDS) == ["ended"] * 2
    assert kernel.get(awaits.remote(), timeout=SECONDS) == 3


def test_tasks_that_await_do_not_go_on_side_by_side(fresh_session):
    fresh_session(num_cpus=1)

    @kernel.remote(num_cpus=0)
    def slow():
        time.sleep(0.3)

    @kernel.remote
    def parent():
        async def wait():
            await slow.remote()

        asyncio.run(wait())
        begun = time.monotonic()
        time.sleep(0.3)
        return begun, time.monotonic()

    spans = kernel.get([parent.remote() for _ in range(3)], timeout=SECONDS)
    assert side_by_side(spans) == 0, spans
