"""Tasks, objects and errors behave the same in local mode and over real processes."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading

import numpy
import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("engine")

SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


@kernel.remote
class Gate:
    """Holds callers until it is opened."""

    def __init__(self):
        self.opened = asyncio.Event()

    async def open(self, value=None):
        self.value = value
        self.opened.set()

    async def passed(self):
        await self.opened.wait()
        return self.value


class Refused(Exception):
    def __init__(self, code):
        super().__init__(f"refused with {code}")
        self.code = code


@kernel.remote
def refuse(code):
    raise Refused(code)


# -- calls ---------------------------------------------------------------------------------------------------------


def test_a_call_gives_its_result():
    assert kernel.get(identity.remote(42)) == 42


def test_a_failure_goes_through_a_chain_longer_than_the_stack():
    gate = Gate.remote()
    ref = refuse.remote(gate.passed.remote())
    for _ in range(2000):
        ref = identity.remote(ref)
    gate.open.remote(7)
    with pytest.raises(Refused, match="refused with 7"):
        kernel.get(ref, timeout=SECONDS)


def test_a_list_of_references_gives_values_in_its_order():
    assert kernel.get([identity.remote(i) for i in range(20)]) == list(range(20))


def test_keyword_arguments_and_defaults():
    @kernel.remote
    def total(a, b=10, *rest, scale=1, **more):
        return (a + b + sum(rest) + sum(more.values())) * scale

    assert kernel.get(total.remote(1)) == 11
    assert kernel.get(total.remote(1, 2, 3, scale=2, extra=4)) == 20


def test_references_as_arguments_become_their_values():
    assert kernel.get(identity.remote(identity.remote(identity.remote("deep")))) == "deep"


def test_references_inside_containers_stay_references():
    @kernel.remote
    def look(box):
        return [type(box["ref"]).__name__, kernel.get(box["ref"])]

    assert kernel.get(look.remote({"ref": kernel.put(5)})) == ["ObjectRef", 5]


def test_references_in_closures():
    ref = kernel.put([1, 2])

    @kernel.remote
    def read():
        return kernel.get(ref)

    assert kernel.get(read.remote()) == [1, 2]


def test_references_come_back_from_tasks():
    @kernel.remote
    def make():
        return [kernel.put("inner"), identity.remote("other")]

    first, second = kernel.get(make.remote())
    assert kernel.get([first, second]) == ["inner", "other"]


def test_nested_tasks():
    @kernel.remote
    def fibonacci(n):
        if n < 2:
            return n
        return sum(kernel.get([fibonacci.remote(n - 1), fibonacci.remote(n - 2)]))

    assert kernel.get(fibonacci.remote(6)) == 8


def test_several_returns():
    @kernel.remote(num_returns=3)
    def three():
        return 1, 2, 3

    refs = three.remote()
    assert len(refs) == 3 and kernel.get(refs) == [1, 2, 3]


def test_no_returns():
    assert identity.options(num_returns=0).remote(1) is None


def test_the_wrong_number_of_returns():
    with pytest.raises(ValueError, match=r"has num_returns=2 and must return that many values, but returned 3 values"):
        kernel.get(identity.options(num_returns=2).remote([1, 2, 3])[0])
    with pytest.raises(TypeError, match=r"has num_returns=2 and must return that many values, but returned a int"):
        kernel.get(identity.options(num_returns=2).remote(3)[0])


def test_a_function_defined_again_is_another_function():
    @kernel.remote
    def answer():
        return 1

    first = answer.remote()

    @kernel.remote
    def answer():
        return 2

    assert kernel.get([first, answer.remote()]) == [1, 2]


def test_a_remote_function_is_not_called_directly():
    with pytest.raises(TypeError, match=r"can't be called directly; use identity.remote\(...\)"):
        identity(1)


def test_an_unknown_option():
    with pytest.raises(exceptions.OptionError, match=r"did you mean 'num_cpus'\?"):
        identity.options(num_cpu=1)


def test_options_do_not_change_the_original():
    other = identity.options(num_returns=2)
    assert kernel.get(other.remote((1, 2))) == [1, 2]
    assert kernel.get(identity.remote((1, 2))) == (1, 2)


def test_max_calls_is_accepted():
    @kernel.remote(max_calls=1)
    def once():
        return 1

    assert kernel.get([once.remote() for _ in range(3)]) == [1, 1, 1]


def test_calls_from_several_threads():
    results = []

    def work(base):
        results.append(sum(kernel.get([identity.remote(base + i) for i in range(5)])))

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [10, 60, 110, 160]


# -- values --------------------------------------------------------------------------------------------------------


def test_changing_an_argument_does_not_reach_the_caller():
    @kernel.remote
    def change(items):
        items.append(4)
        return items

    mine = [1, 2, 3]
    assert kernel.get(change.remote(mine)) == [1, 2, 3, 4]
    assert mine == [1, 2, 3]


def test_changing_a_value_after_put_changes_nothing():
    value = {"a": 1}
    ref = kernel.put(value)
    value["a"] = 2
    assert kernel.get(ref) == {"a": 1}
    kernel.get(ref)["a"] = 3
    assert kernel.get(ref) == {"a": 1}


def test_large_arrays_are_read_only():
    array = kernel.get(kernel.put(numpy.arange(100_000)))
    assert array.sum() == 4999950000
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_large_arguments_and_results():
    value = numpy.ones(200_000)

    @kernel.remote
    def double(array):
        return array * 2

    assert kernel.get(double.remote(double.remote(value))).sum() == 800_000


def test_an_argument_that_can_not_be_pickled():
    with pytest.raises(exceptions.SerializationError, match=r"can't pickle .*lock"):
        identity.remote({"deep": [threading.Lock()]})


def test_a_result_that_can_not_be_pickled():
    @kernel.remote
    def lock():
        return {"held": threading.Lock()}

    with pytest.raises(TypeError, match=r"can't pickle the return value of lock\(\)"):
        kernel.get(lock.remote())


def test_put_of_a_reference_is_refused():
    with pytest.raises(exceptions.UsageError, match=r"put\(ObjectRef\) would store a reference to a reference"):
        kernel.put(kernel.put(1))


def test_references_are_hashable_and_equal():
    ref = kernel.put(1)
    assert kernel.get(identity.remote([ref]))[0] == ref
    assert len({ref, kernel.get(identity.remote([ref]))[0]}) == 1
    assert len(ref.hex()) == 40


def test_future_of_a_reference():
    assert identity.remote(3).future().result(timeout=SECONDS) == 3
    for ref in (identity.remote(3), refuse.remote(1)):
        assert ref.future(read=False).result(timeout=SECONDS) is None and ref.is_ready()
    with pytest.raises(Refused):
        refuse.remote(1).future().result(timeout=SECONDS)


def test_awaiting_references():
    async def main():
        return await asyncio.gather(identity.remote(1), identity.remote(2))

    assert asyncio.run(main()) == [1, 2]


# -- errors --------------------------------------------------------------------------------------------------------


def test_an_error_is_of_the_users_type_and_a_task_error():
    with pytest.raises(Refused) as caught:
        kernel.get(refuse.remote(7))
    assert isinstance(caught.value, exceptions.TaskError)
    assert caught.value.code == 7 and "refused with 7" in str(caught.value)
    assert isinstance(caught.value.cause, Refused)


def test_an_error_names_its_tasks():
    @kernel.remote
    def outer():
        return kernel.get(refuse.remote(3))

    with pytest.raises(Refused) as caught:
        kernel.get(outer.remote())
    notes = "\n".join(caught.value.__notes__) if hasattr(caught.value, "__notes__") else str(caught.value)
    assert "refuse() <- outer(), process" in notes


def test_the_cause_of_an_error():
    @kernel.remote
    def chained():
        try:
            _ = {}["missing"]
        except KeyError as error:
            raise ValueError("wrapped") from error

    with pytest.raises(ValueError, match="wrapped") as caught:
        kernel.get(chained.remote())
    assert isinstance(caught.value.__cause__, KeyError)


class Mine(exceptions.UsageError):
    """An error of the user's own that extends one of the kernel's."""


@kernel.remote
def raise_mine():
    raise Mine("mine")


@kernel.remote
def lose_patience():
    kernel.get(Gate.remote().passed.remote(), timeout=0.05)


@pytest.mark.parametrize(("task", "kind"), [(raise_mine, Mine), (lose_patience, exceptions.GetTimeoutError)])
def test_an_error_of_the_kernel_that_leaves_a_task_tells_its_story(task, kind):
    with pytest.raises(kind) as caught:
        kernel.get(task.remote(), timeout=SECONDS)
    assert isinstance(caught.value, exceptions.TaskError)
    notes = "\n".join(caught.value.__notes__) if hasattr(caught.value, "__notes__") else str(caught.value)
    assert f"in {task.__name__}(), process" in notes


def test_an_error_of_the_kernel_that_leaves_a_task_is_retried_like_others(tmp_path):
    @kernel.remote(retry_exceptions=[TimeoutError], max_retries=1)
    def attempt():
        with open(tmp_path / "runs", "a") as file:
            file.write("x")
        kernel.get(Gate.remote().passed.remote(), timeout=0.05)

    with pytest.raises(TimeoutError):
        kernel.get(attempt.remote(), timeout=SECONDS)
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_failed_argument_fails_the_task():
    with pytest.raises(Refused):
        kernel.get(identity.remote(identity.remote(refuse.remote(1))))


def test_an_exception_that_can_not_be_pickled_keeps_its_text():
    class Holding(Exception):
        def __init__(self, text):
            super().__init__(text)
            self.lock = threading.Lock()

    @kernel.remote
    def hold():
        raise Holding("in my hand")

    with pytest.raises(exceptions.TaskError, match="in my hand"):
        kernel.get(hold.remote())


def test_sys_exit_in_a_task():
    @kernel.remote(max_retries=0)
    def leave():
        raise SystemExit(3)

    with pytest.raises(exceptions.WorkerDiedError, match=r"leave\(\) called sys.exit\(3\), which ended worker process"):
        kernel.get(leave.remote())


def test_exit_actor_in_a_task():
    @kernel.remote
    def leave():
        kernel.exit_actor()

    with pytest.raises(exceptions.UsageError, match="works only inside a method of an actor"):
        kernel.get(leave.remote())


def test_user_errors_are_not_retried_unless_asked(tmp_path):
    path = tmp_path / "runs"

    @kernel.remote
    def fail():
        with open(path, "a") as file:
            file.write("x")
        raise Refused(1)

    with pytest.raises(Refused):
        kernel.get(fail.remote())
    assert path.read_text() == "x"
    with pytest.raises(Refused):
        kernel.get(fail.options(retry_exceptions=True, max_retries=2).remote())
    assert path.read_text() == "xxxx"
    with pytest.raises(Refused):
        kernel.get(fail.options(retry_exceptions=[KeyError]).remote())
    assert path.read_text() == "xxxxx"


def test_a_retried_task_knows_its_attempt():
    @kernel.remote(retry_exceptions=[Refused], max_retries=5)
    def third_time():
        attempt = kernel.get_runtime_context().get_attempt_number()
        if attempt < 2:
            raise Refused(attempt)
        return attempt

    assert kernel.get(third_time.remote()) == 2


# -- waiting -------------------------------------------------------------------------------------------------------


def test_wait_splits_ready_from_others():
    gate = Gate.remote()
    refs = [identity.remote(1), gate.passed.remote(), identity.remote(3)]
    ready, others = kernel.wait(refs, num_returns=2, timeout=SECONDS)
    assert (ready, others) == ([refs[0], refs[2]], [refs[1]])
    kernel.get(gate.open.remote())
    assert kernel.wait(others, timeout=SECONDS) == (others, [])


def test_wait_runs_out_of_time():
    gate = Gate.remote()
    ref = gate.passed.remote()
    assert kernel.wait([ref], timeout=0.05) == ([], [ref])
    assert kernel.wait([ref], timeout=0) == ([], [ref])
    kernel.get(gate.open.remote())


def test_get_runs_out_of_time():
    gate = Gate.remote()
    ref = gate.passed.remote()
    with pytest.raises(exceptions.GetTimeoutError, match=r"get\(\) had no result within 0.05 s: Gate.passed\(\)"):
        kernel.get(ref, timeout=0.05)
    with pytest.raises(TimeoutError):
        kernel.get(identity.remote(ref), timeout=0.05)
    kernel.get(gate.open.remote())


def test_tasks_wait_for_their_arguments():
    gate = Gate.remote()
    chained = identity.remote(identity.remote(gate.passed.remote()))
    assert kernel.wait([chained], timeout=0.05) == ([], [chained])
    kernel.get(gate.open.remote("through"))
    assert kernel.get(chained, timeout=SECONDS) == "through"


def test_what_a_waiting_task_waits_for_is_explained():
    gate = Gate.remote()
    ref = identity.remote(gate.passed.remote())
    assert "identity() waits for 1 of its arguments: Gate.passed()" in kernel.explain(ref)
    kernel.get(gate.open.remote())
    kernel.get(ref)
    assert kernel.explain(ref).endswith("is ready (inline)")


def test_an_await_that_was_given_up_is_in_nobodys_way():
    gate = Gate.remote()
    ref = gate.passed.remote()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ref.as_future(), 0.05)

    asyncio.run(main())
    kernel.get(gate.open.remote("through"), timeout=SECONDS)
    assert kernel.get(ref, timeout=SECONDS) == "through"


def test_what_a_future_calls_may_wait_for_other_values():
    first, second = Gate.remote(), Gate.remote()
    found = queue.SimpleQueue()

    def go_on(future):
        kernel.get(second.open.remote(future.result()), timeout=SECONDS)
        found.put(kernel.get(second.passed.remote(), timeout=SECONDS))

    first.passed.remote().future().add_done_callback(go_on)
    kernel.get(first.open.remote("through"), timeout=SECONDS)
    assert found.get(timeout=SECONDS) == "through"


@pytest.mark.usefixtures("patient_explanations")
def test_an_infeasible_task_is_explained_when_time_runs_out():
    ref = identity.options(resources={"unheard_of": 1}).remote(1)
    with pytest.raises(exceptions.GetTimeoutError, match=r"unheard_of: 1"):
        kernel.get(ref, timeout=0.2)
    assert "unheard_of" in kernel.explain(ref)
    kernel.cancel(ref)


def test_a_resource_that_appears_lets_tasks_run():
    ref = identity.options(resources={"late": 1}).remote("ran")
    assert kernel.wait([ref], timeout=0.1) == ([], [ref])
    kernel.set_resource("late", 1)
    assert kernel.get(ref, timeout=SECONDS) == "ran"
    kernel.set_resource("late", 0)


def test_wait_checks_its_arguments():
    ref = kernel.put(1)
    with pytest.raises(exceptions.OptionError, match="each reference once"):
        kernel.wait([ref, ref])
    with pytest.raises(exceptions.OptionError, match="between 1 and the 1 references"):
        kernel.wait([ref], num_returns=2)


# -- cancelling ----------------------------------------------------------------------------------------------------


def test_a_task_that_waits_is_cancelled_for_good(tmp_path):
    gate = Gate.remote()

    @kernel.remote
    def touch(value):
        (tmp_path / "ran").write_text("x")

    ref = touch.remote(gate.passed.remote())
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError, match=r"task touch\(\) \([0-9a-f]+\) was cancelled"):
        kernel.get(ref, timeout=SECONDS)
    kernel.get(gate.open.remote())
    assert kernel.get(identity.remote(1)) == 1
    assert not (tmp_path / "ran").exists()


def test_what_depends_on_a_cancelled_task_is_cancelled():
    gate = Gate.remote()
    ref = identity.remote(gate.passed.remote())
    after = identity.remote(ref)
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(after, timeout=SECONDS)


def test_a_finished_task_is_left_alone():
    ref = identity.remote(1)
    kernel.get(ref)
    kernel.cancel(ref)
    assert kernel.get(ref) == 1


# -- generators ----------------------------------------------------------------------------------------------------


@kernel.remote
def count(limit, fail_at=None):
    for i in range(limit):
        if i == fail_at:
            raise Refused(i)
        yield i


def test_a_stream_yields_in_order():
    assert [kernel.get(ref) for ref in count.remote(100)] == list(range(100))


def test_an_error_ends_a_stream():
    stream = count.remote(5, fail_at=2)
    assert kernel.get(next(stream)) == 0
    assert kernel.get(next(stream)) == 1
    with pytest.raises(Refused):
        kernel.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)


def test_an_endless_stream_is_closed():
    @kernel.remote
    def endless():
        number = 0
        while True:
            yield number
            number += 1

    stream = endless.remote()
    assert [kernel.get(next(stream)) for _ in range(200)] == list(range(200))
    stream.close()


def test_a_stream_says_when_it_is_completed():
    stream = count.remote(300)
    kernel.get(stream.completed(), timeout=SECONDS)
    assert len(list(stream)) == 300
    assert stream.is_finished()


def test_a_stream_stays_close_to_its_consumer(tmp_path):
    @kernel.remote(stream_ahead=2)
    def careful():
        for i in range(8):
            with open(tmp_path / "made", "a") as file:
                file.write(str(i))
            yield i

    stream = careful.remote()
    assert kernel.get(next(stream)) == 0
    kernel.wait([identity.remote(0)], timeout=SECONDS)
    assert len((tmp_path / "made").read_text()) <= 4
    assert [kernel.get(ref) for ref in stream] == list(range(1, 8))


def test_async_iteration_over_a_stream():
    async def main():
        return [await ref async for ref in count.remote(5)]

    assert asyncio.run(main()) == list(range(5))


def test_a_dynamic_number_of_returns():
    ref = count.options(num_returns="dynamic").remote(3)
    returns = kernel.get(ref)
    assert len(returns) == 3 and [kernel.get(item) for item in returns] == [0, 1, 2]


def test_streaming_a_function_that_is_no_generator():
    with pytest.raises(ValueError, match=r"num_returns='streaming' is for generators, which identity\(\) is not"):
        identity.options(num_returns="streaming").remote(5)


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_retried_generator_leaves_its_earlier_items_alone(size):
    @kernel.remote(retry_exceptions=True, max_retries=1)
    def arrays():
        for i in range(3):
            yield numpy.full(size, i)
        if kernel.get_runtime_context().get_attempt_number() == 0:
            raise Refused(1)

    @kernel.remote
    def total(holder):
        return int(kernel.get(holder[0]).sum())

    refs = list(arrays.remote())
    assert [int(array.sum()) for array in kernel.get(refs)] == [0, size, 2 * size]
    assert kernel.get([total.remote([ref]) for ref in refs]) == [0, size, 2 * size]
    refs = list(kernel.get(arrays.options(num_returns="dynamic").remote()))
    assert kernel.get([total.remote([ref]) for ref in refs]) == [0, size, 2 * size]


# -- where code runs -----------------------------------------------------------------------------------------------


def test_the_context_of_a_task():
    @kernel.remote(num_cpus=2, resources={"seat": 1})
    def look():
        context = kernel.get_runtime_context()
        return context.get_task_name(), context.get_task_id(), context.get_actor_id(), context.get_assigned_resources()

    ref = look.remote()
    name, task, actor, resources = kernel.get(ref)
    assert name == "look" and task == ref.task_id().hex() and actor is None
    assert resources == {"CPU": 2, "seat": 1}
    assert kernel.get_runtime_context().get_task_id() is None


def test_ids_and_namespace_of_the_session():
    @kernel.remote
    def look():
        context = kernel.get_runtime_context()
        return context.get_job_id(), context.get_node_id(), context.namespace

    context = kernel.get_runtime_context()
    assert kernel.get(look.remote()) == (context.get_job_id(), context.get_node_id(), context.namespace)
    assert kernel.nodes()[0]["NodeID"] == context.get_node_id()


def test_a_node_says_what_it_offers_and_what_of_that_is_free():
    @kernel.remote(memory=64 << 20)
    def look():
        (node,) = [row for row in kernel.nodes() if row["Alive"]]
        return node["Resources"], node["Available"]

    offered, free = kernel.get(look.remote())
    assert offered == kernel.cluster_resources() and offered.keys() == free.keys()
    assert min(offered[name] for name in ("CPU", "memory", "object_store_memory")) > 0
    assert offered["memory"] - free["memory"] >= 64 << 20 and offered["CPU"] - free["CPU"] >= 1


def test_gpus_are_given_out():
    @kernel.remote(num_gpus=1)
    def look():
        return kernel.get_gpu_ids(), kernel.get_runtime_context().get_accelerator_ids()

    ids, accelerators = kernel.get(look.remote())
    assert ids in ([0], [1]) and accelerators == {"GPU": [str(ids[0])]}
    assert kernel.get_gpu_ids() == []


def test_resources_of_the_cluster(eventually):
    total = kernel.cluster_resources()
    assert (total["CPU"], total["GPU"], total["seat"]) == (4, 2, 2)

    @kernel.remote(num_cpus=0, resources={"seat": 1})
    def free():
        return kernel.available_resources().get("seat")

    eventually(lambda: kernel.available_resources().get("seat") == 2)
    assert kernel.get(free.remote()) == 1
    eventually(lambda: kernel.available_resources().get("seat") == 2)


def test_the_environment_of_a_task(monkeypatch):
    import os

    monkeypatch.delenv("FLAVOUR", raising=False)

    @kernel.remote
    def flavour():
        return os.environ.get("FLAVOUR")

    assert kernel.get(flavour.options(runtime_env={"env_vars": {"FLAVOUR": "plum"}}).remote()) == "plum"
    assert kernel.get(flavour.remote()) is None
    assert "FLAVOUR" not in os.environ


def test_the_working_directory_of_a_task(tmp_path):
    import os

    (tmp_path / "data.txt").write_text("contents")
    (tmp_path / "helper_of_both_engines.py").write_text("VALUE = 7")

    @kernel.remote(runtime_env={"working_dir": str(tmp_path)})
    def look():
        import helper_of_both_engines

        with open("data.txt") as file:
            return file.read(), helper_of_both_engines.VALUE

    before = os.getcwd()
    assert kernel.get(look.remote()) == ("contents", 7)
    assert os.getcwd() == before


def test_modules_that_travel(tmp_path):
    package = tmp_path / "travelling_of_both_engines"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 8")

    @kernel.remote(runtime_env={"py_modules": [str(package)]})
    def look():
        import travelling_of_both_engines

        return travelling_of_both_engines.VALUE

    assert kernel.get(look.remote()) == 8


def test_an_environment_is_packed_known_and_not_inherited(tmp_path):
    import os
    import shutil

    folder = tmp_path / "packed"
    folder.mkdir()
    (folder / "data.txt").write_text("contents")
    packed = kernel.pack_runtime_env({"working_dir": str(folder), "env_vars": {"FLAVOUR": "plum"}})
    shutil.rmtree(folder)

    @kernel.remote
    def look():
        here = os.path.exists("data.txt"), os.environ.get("FLAVOUR")
        return *here, kernel.get_runtime_context().runtime_env

    @kernel.remote(runtime_env=packed)
    def outer():
        return kernel.get([look.remote(), look.options(runtime_env={"inherit": False}).remote()])

    assert kernel.get_runtime_context().runtime_env == {}
    inherited, alone = kernel.get(outer.remote())
    assert inherited == (True, "plum", packed)
    assert alone[2] == {}


def test_references_that_a_program_pickles_are_kept_by_who_collects_them():
    import pickle

    ref = kernel.put([1, 2])
    with kernel.collect_references() as references:
        data = pickle.dumps({"inside": ref})
    assert references == [ref]
    assert kernel.get(pickle.loads(data)["inside"]) == [1, 2]


def test_an_unknown_field_of_an_environment():
    with pytest.raises(exceptions.RuntimeEnvError, match=r"did you mean 'env_vars'\?"):
        identity.options(runtime_env={"env_var": {}}).remote(1)


def test_the_timeline_has_tasks_and_spans(eventually):
    with kernel.profile("a span", {"key": "value"}):
        kernel.get(identity.options(name="seen in the timeline").remote(1))
    events = {}

    def both_told():
        events.update((event["name"], event) for event in kernel.timeline())
        return {"seen in the timeline", "a span"} <= set(events)

    eventually(both_told)
    assert events["seen in the timeline"]["cat"] == "task"
    assert events["a span"]["args"]["key"] == "value"


# -- streams among references, and cancelled ---------------------------------------------------------------------------


@kernel.remote
def numbers(count):
    yield from range(count)


@kernel.remote(stream_ahead=2)
def endless():
    yield from itertools.count()


def test_wait_takes_streams():
    stream, ref = endless.options(num_cpus=0).remote(), identity.remote(1)
    assert kernel.wait([stream, ref], num_returns=2, timeout=SECONDS) == ([stream, ref], [])
    assert kernel.get(next(stream)) == 0
    assert kernel.wait([ref, numbers.remote(2)], num_returns=2, timeout=SECONDS)[1] == []


def test_a_stream_that_has_ended_is_ready():
    stream = numbers.remote(2)
    assert [kernel.get(ref) for ref in stream] == [0, 1]
    assert kernel.wait([stream], timeout=SECONDS) == ([stream], [])
    empty = numbers.remote(0)
    assert kernel.wait([empty], timeout=SECONDS) == ([empty], [])
    assert list(empty) == []


def test_what_wait_does_not_take_is_named():
    with pytest.raises(TypeError, match="a list with a int in it"):
        kernel.wait([numbers.remote(1), 3])
    stream = numbers.remote(1)
    with pytest.raises(ValueError, match="takes each reference once"):
        kernel.wait([stream, stream])


def test_a_cancelled_stream_ends_with_an_error():
    stream = endless.options(num_cpus=0).remote()
    assert [kernel.get(next(stream)) for _ in range(2)] == [0, 1]
    kernel.cancel(stream)
    with pytest.raises(exceptions.TaskCancelledError):
        for ref in stream:
            kernel.get(ref, timeout=SECONDS)
    kernel.cancel(stream)  # which is over
    done = numbers.remote(1)
    assert [kernel.get(ref) for ref in done] == [0]
    kernel.cancel(done)


def test_only_code_that_runs_in_a_call_can_ask_whether_it_was_cancelled():
    with pytest.raises(RuntimeError, match="works only inside a task or a method of an actor"):
        kernel.get_runtime_context().is_canceled()

    @kernel.remote
    def ask():
        return kernel.get_runtime_context().is_canceled()

    assert kernel.get(ask.remote()) is False
