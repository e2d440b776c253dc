"""Actors behave the same in local mode and over real processes."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("engine")

SECONDS = 120.0


@kernel.remote
def identity(value):
    return value


@kernel.remote
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, amount=1):
        self.value += amount
        return self.value

    def append_to(self, items):
        items.append(self.value)
        return items

    def fail(self, text):
        raise ValueError(text)

    def leave(self):
        kernel.exit_actor()

    def quit(self, code):
        sys.exit(code)

    def up_to(self, limit):
        for _ in range(limit):
            self.value += 1
            yield self.value

    @kernel.method(num_returns=2)
    def pair(self):
        return self.value, -self.value

    def who(self):
        context = kernel.get_runtime_context()
        return context.get_actor_id(), context.get_actor_name(), context.get_task_name(), context.namespace

    def myself(self):
        return kernel.get_runtime_context().current_actor

    def lock(self):
        return threading.Lock()

    def restarted(self):
        return kernel.get_runtime_context().was_current_actor_reconstructed


@kernel.remote
class Signal:
    def __init__(self):
        self.event = asyncio.Event()

    async def send(self, value=None):
        self.value = value
        self.event.set()

    async def wait(self):
        await self.event.wait()
        return self.value

    def plain(self):
        return "plain"

    async def fail(self):
        raise KeyError("async")

    async def up_to(self, limit):
        for i in range(limit):
            await asyncio.sleep(0)
            yield i

    async def who(self):
        return kernel.get_runtime_context().get_task_name()

    async def ask(self, other):
        return await other.add.remote(5)

    async def leave(self):
        kernel.exit_actor()


# -- plain actors --------------------------------------------------------------------------------------------------


def test_an_actor_keeps_its_state_and_its_order():
    counter = Counter.remote(10)
    assert kernel.get([counter.add.remote() for _ in range(50)]) == list(range(11, 61))


def test_constructor_arguments_may_be_references():
    assert kernel.get(Counter.remote(identity.remote(5)).add.remote()) == 6


def test_wrong_constructor_arguments_fail_at_once():
    with pytest.raises(TypeError, match=r"Counter.remote\(\)"):
        Counter.remote(1, 2, 3)


def test_an_error_in_a_method_leaves_the_actor_alive():
    counter = Counter.remote()
    with pytest.raises(ValueError, match="oops") as caught:
        kernel.get(counter.fail.remote("oops"))
    assert isinstance(caught.value, exceptions.TaskError)
    notes = "\n".join(caught.value.__notes__) if hasattr(caught.value, "__notes__") else str(caught.value)
    assert "Counter.fail()" in notes and "of actor Counter" in notes
    assert kernel.get(counter.add.remote()) == 1


def test_arguments_of_methods_are_copies():
    mine = [1]
    assert kernel.get(Counter.remote(2).append_to.remote(mine)) == [1, 2]
    assert mine == [1]


def test_methods_with_several_returns():
    assert kernel.get(Counter.remote(3).pair.remote()) == [3, -3]
    with pytest.raises(TypeError, match=r"Counter.add\(\) has num_returns=2"):
        kernel.get(Counter.remote().add.options(num_returns=2).remote()[0])


def test_a_method_that_is_not_there():
    with pytest.raises(AttributeError, match=r"actor Counter has no method 'ad'; did you mean 'add'\?"):
        Counter.remote().ad  # noqa: B018


def test_a_result_that_can_not_be_pickled():
    with pytest.raises(exceptions.SerializationError, match=r"can't pickle the return value of Counter.lock\(\)"):
        kernel.get(Counter.remote().lock.remote())


def test_handles_travel():
    @kernel.remote
    def use(box):
        return kernel.get(box["counter"].add.remote(4))

    counter = Counter.remote()
    assert kernel.get(use.remote({"counter": counter})) == 4
    assert kernel.get(counter.add.remote()) == 5
    assert kernel.get(identity.remote(counter)) == counter


def test_actors_make_actors():
    @kernel.remote
    class Parent:
        def __init__(self):
            self.child = Counter.remote(100)

        def ask(self):
            return kernel.get(self.child.add.remote())

    assert kernel.get(Parent.remote().ask.remote()) == 101


def test_calls_wait_for_their_arguments_in_order():
    signal, counter = Signal.remote(), Counter.remote()
    first = counter.add.remote(signal.wait.remote())
    second = counter.add.remote(1)
    assert kernel.wait([first, second], num_returns=1, timeout=0.1) == ([], [first, second])
    kernel.get(signal.send.remote(10))
    assert kernel.get([first, second], timeout=SECONDS) == [10, 11]


def test_a_failed_argument_fails_the_call_alone():
    counter = Counter.remote()
    with pytest.raises(ValueError, match="early"):
        kernel.get(counter.add.remote(counter.fail.remote("early")))
    assert kernel.get(counter.add.remote()) == 1


def test_an_actor_calls_itself_for_later():
    @kernel.remote
    class Echo:
        def __init__(self):
            self.heard = []

        def say(self, word):
            self.heard.append(word)
            if word == "first":
                return [kernel.get_runtime_context().current_actor.say.remote("second")]
            return None

        def all(self):
            return self.heard

    echo = Echo.remote()
    [later] = kernel.get(echo.say.remote("first"))
    kernel.get(later, timeout=SECONDS)
    assert kernel.get(echo.all.remote()) == ["first", "second"]


def test_a_generator_method_streams_and_keeps_its_turn():
    counter = Counter.remote()
    stream = counter.up_to.remote(100)
    after = counter.add.remote(1000)
    assert [kernel.get(ref) for ref in stream] == list(range(1, 101))
    assert kernel.get(after, timeout=SECONDS) == 1100


def test_a_call_behind_a_stream_that_nobody_reads():
    counter = Counter.remote()
    stream = counter.up_to.remote(300)
    assert kernel.get(counter.add.remote(1000), timeout=SECONDS) == 1300
    stream.close()


def test_actors_are_not_called_directly():
    with pytest.raises(TypeError, match=r"use Counter.remote\(...\)"):
        Counter()
    with pytest.raises(TypeError, match=r"use .add.remote\(...\)"):
        Counter.remote().add()


def test_calls_of_methods_are_retried_on_their_exceptions(tmp_path):
    path = tmp_path / "tries"
    path.write_text("")

    @kernel.remote
    class Flaky:
        @kernel.method(retry_exceptions=[KeyError], max_task_retries=3)
        def third_time(self):
            path.write_text(path.read_text() + "x")
            if len(path.read_text()) < 3:
                raise KeyError("not yet")
            return kernel.get_runtime_context().get_attempt_number()

    assert kernel.get(Flaky.remote().third_time.remote()) == 2


# -- context -------------------------------------------------------------------------------------------------------


def test_the_context_of_an_actor():
    counter = Counter.remote()
    actor, name, task, namespace = kernel.get(counter.who.remote())
    assert actor == counter._actor_id.hex() and (name, task) == ("Counter", "Counter.add".replace("add", "who"))
    assert namespace == kernel.get_runtime_context().namespace
    assert kernel.get(counter.myself.remote()) == counter
    assert kernel.get_runtime_context().get_actor_id() is None
    with pytest.raises(exceptions.UsageError, match="only inside an actor"):
        _ = kernel.get_runtime_context().current_actor


def test_an_actor_holds_its_resources(eventually):
    @kernel.remote(num_gpus=1, resources={"seat": 1})
    class Holder:
        def ids(self):
            return kernel.get_gpu_ids(), kernel.get_runtime_context().get_assigned_resources()

    holder, other = Holder.remote(), Holder.remote()
    (first, resources), (second, _) = kernel.get([holder.ids.remote(), other.ids.remote()])
    assert sorted(first + second) == [0, 1]
    assert resources == {"CPU": 1, "GPU": 1, "seat": 1}
    assert kernel.available_resources()["seat"] == 0.0
    third = Holder.remote()
    ref = third.ids.remote()
    assert kernel.wait([ref], timeout=0.2) == ([], [ref])
    kernel.kill(holder)
    assert kernel.get(ref, timeout=SECONDS)[0] == first
    del other, third, ref
    eventually(lambda: kernel.available_resources().get("seat") == 2)


@pytest.mark.usefixtures("patient_explanations")
def test_an_infeasible_actor_is_explained():
    actor = Counter.options(resources={"nowhere": 1}).remote()
    ref = actor.add.remote()
    with pytest.raises(exceptions.GetTimeoutError, match="nowhere"):
        kernel.get(ref, timeout=0.2)
    kernel.kill(actor)
    with pytest.raises(exceptions.ActorDiedError, match="killed"):
        kernel.get(ref, timeout=SECONDS)


def test_the_environment_of_an_actor():
    @kernel.remote
    class Reader:
        def __init__(self):
            import os

            self.seen = os.environ.get("ACTOR_FLAVOUR")

        def read(self):
            import os

            return self.seen, os.environ.get("ACTOR_FLAVOUR")

    reader = Reader.options(runtime_env={"env_vars": {"ACTOR_FLAVOUR": "sour"}}).remote()
    assert kernel.get(reader.read.remote()) == ("sour", "sour")
    assert kernel.get(Reader.remote().read.remote()) == (None, None)


# -- names ---------------------------------------------------------------------------------------------------------


def test_named_actors_are_found():
    counter = Counter.options(name="found").remote()
    kernel.get(counter.add.remote())
    assert kernel.get(kernel.get_actor("found").add.remote()) == 2
    assert "found" in kernel.list_named_actors()

    @kernel.remote
    def look():
        return kernel.get(kernel.get_actor("found").add.remote())

    assert kernel.get(look.remote()) == 3


def _dies(handle, why):
    deadline = time.monotonic() + SECONDS
    with pytest.raises(exceptions.ActorDiedError, match=why):
        while time.monotonic() < deadline:
            kernel.get(handle.add.remote(), timeout=SECONDS)
    with pytest.raises(ValueError, match="no actor named"):
        kernel.get_actor("kept by its creator")


WHY = (
    r"Counter.add\(\) failed because .* all handles to it went out of scope "
    r"\(one that was found by its name does not keep it; lifetime=\"detached\" does\)"
)


def test_a_handle_that_was_found_by_name_does_not_keep_its_actor():
    for find in (
        lambda: kernel.get_actor("kept by its creator"),
        lambda: Counter.options(name="kept by its creator", get_if_exists=True).remote(),
        lambda: kernel.get(kernel.put([kernel.get_actor("kept by its creator")]))[0],
    ):
        counter = Counter.options(name="kept by its creator").remote()
        found = find()
        assert found == counter
        assert kernel.get(found.add.remote(), timeout=SECONDS) == 1
        del counter
        _dies(found, WHY)


def test_a_passed_handle_keeps_a_named_actor():
    counter = Counter.options(name="kept by its creator").remote()
    found = kernel.get_actor("kept by its creator")
    copy = kernel.get(kernel.put([counter]))
    itself = kernel.get(found.myself.remote(), timeout=SECONDS)
    del counter
    assert kernel.get(found.add.remote(), timeout=SECONDS) == 1
    del copy
    assert kernel.get(found.add.remote(), timeout=SECONDS) == 2
    del itself
    _dies(found, WHY)


def test_a_name_is_taken_once():
    counter = Counter.options(name="taken").remote(7)
    with pytest.raises(exceptions.NameTakenError, match=r"an actor named 'taken' lives in namespace .*get_if_exists"):
        Counter.options(name="taken").remote()
    same = Counter.options(name="taken", get_if_exists=True).remote()
    assert same == counter and kernel.get(same.add.remote()) == 8


def test_names_live_in_namespaces():
    here = Counter.options(name="spaced").remote(1)
    there = Counter.options(name="spaced", namespace="elsewhere").remote(2)
    assert here != there
    assert kernel.get(kernel.get_actor("spaced", namespace="elsewhere").add.remote()) == 3
    assert {"namespace": "elsewhere", "name": "spaced"} in kernel.list_named_actors(all_namespaces=True)
    assert kernel.get(there.who.remote())[3] == "elsewhere"


def test_an_unknown_name():
    with pytest.raises(exceptions.ActorNotFoundError, match="no actor named 'nobody' lives in namespace"):
        kernel.get_actor("nobody")


def test_a_name_is_free_again_after_death(eventually):
    counter = Counter.options(name="mortal").remote()
    kernel.get(counter.add.remote())
    kernel.kill(counter)
    eventually(lambda: "mortal" not in kernel.list_named_actors())
    assert kernel.get(Counter.options(name="mortal").remote(1).add.remote()) == 2


def test_a_detached_actor_outlives_its_handles(eventually):
    kernel.get(Counter.options(name="stays", lifetime="detached").remote(4).add.remote())
    leaving = Counter.options(name="goes").remote()
    kernel.get(leaving.add.remote())
    del leaving
    eventually(lambda: "goes" not in kernel.list_named_actors())
    stays = kernel.get_actor("stays")
    assert kernel.get(stays.add.remote()) == 6
    kernel.kill(stays)


def test_calls_finish_though_the_handle_is_gone():
    signal = Signal.remote()
    ref = Counter.remote(1).add.remote(signal.wait.remote())
    kernel.get(signal.send.remote(5))
    assert kernel.get(ref, timeout=SECONDS) == 6


# -- death ---------------------------------------------------------------------------------------------------------


def test_killed_actors_answer_no_more():
    counter = Counter.remote()
    kernel.get(counter.add.remote())
    kernel.kill(counter)
    with pytest.raises(
        exceptions.ActorDiedError, match=r"Counter.add\(\) failed because .* is dead: it was killed"
    ) as died:
        kernel.get(counter.add.remote(), timeout=SECONDS)
    assert died.value.actor_id == counter._actor_id.hex()


def test_what_only_an_actor_and_only_text_can_be():
    with pytest.raises(RuntimeError, match="only inside an actor"):
        _ = kernel.get_runtime_context().current_actor
    with pytest.raises(TypeError, match=r"^get_actor\(\): namespace must be a string, not a int$"):
        kernel.get_actor("x", namespace=3)
    with pytest.raises(TypeError, match=r"^get_actor\(\): name must be a string, not a NoneType$"):
        kernel.get_actor(None)


def test_a_failing_constructor():
    @kernel.remote
    class Broken:
        def __init__(self):
            raise LookupError("no parts")

        def work(self):
            return 1

    broken = Broken.remote()
    with pytest.raises(LookupError, match="no parts") as caught:
        kernel.get(broken.work.remote(), timeout=SECONDS)
    assert isinstance(caught.value, exceptions.TaskError)
    notes = "\n".join(caught.value.__notes__) if hasattr(caught.value, "__notes__") else str(caught.value)
    assert "Broken.__init__()" in notes


def test_a_constructor_whose_argument_failed():
    counter = Counter.remote(Counter.remote().fail.remote("bad argument"))
    with pytest.raises(ValueError, match="bad argument") as caught:
        kernel.get(counter.add.remote(), timeout=SECONDS)
    assert isinstance(caught.value, exceptions.ActorDiedError)
    notes = "\n".join(caught.value.__notes__) if hasattr(caught.value, "__notes__") else str(caught.value)
    assert "in Counter.fail() <- Counter.__init__()" in notes


def test_a_constructor_whose_argument_was_cancelled_or_lost():
    @kernel.remote
    def never(ref):
        raise AssertionError

    signal = Signal.remote()
    waiting = never.options(max_retries=0).remote(signal.wait.remote())
    counter = Counter.remote(waiting)
    kernel.cancel(waiting)
    kernel.kill(signal)
    words = r"Counter.__init__\(\) was never run, because one of its arguments failed: TaskCancelledError: .*never\(\)"
    with pytest.raises(exceptions.ActorDiedError, match=words):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_exit_actor_ends_it_for_good():
    counter = Counter.options(max_restarts=3).remote()
    reason = r"is dead: it ended itself: Counter.leave\(\) called exit_actor\(\)"
    with pytest.raises(exceptions.ActorDiedError, match=reason):
        kernel.get(counter.leave.remote(), timeout=SECONDS)
    with pytest.raises(exceptions.ActorDiedError, match=reason):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_sys_exit_in_an_actor():
    counter = Counter.remote()
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(counter.quit.remote(3), timeout=SECONDS)
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_terminate_ends_an_actor_after_its_calls():
    counter = Counter.remote()
    before = counter.add.remote()
    done = counter.__kernel_terminate__.remote()
    assert kernel.get([before, done], timeout=SECONDS) == [1, None]
    with pytest.raises(exceptions.ActorDiedError, match="__kernel_terminate__"):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def _restarted(counter):
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            return kernel.get(counter.add.remote(), timeout=SECONDS)
        except exceptions.ActorUnavailableError:
            continue
    pytest.fail("it did not restart")


def test_a_killed_actor_restarts():
    counter = Counter.options(max_restarts=1).remote(10)
    assert kernel.get(counter.add.remote()) == 11
    kernel.kill(counter, no_restart=False)
    assert _restarted(counter) == 11
    assert kernel.get(counter.restarted.remote()) is True
    kernel.kill(counter, no_restart=False)
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(counter.add.remote(), timeout=SECONDS)


def test_a_call_that_a_restart_interrupts():
    signal = Signal.remote()

    @kernel.remote(max_restarts=-1, max_concurrency=2)
    class Waiting:
        def wait(self, signal):
            return kernel.get(signal[0].wait.remote())

        def ready(self):
            return True

    waiting = Waiting.remote()
    ref = waiting.wait.remote([signal])
    kernel.get(waiting.ready.remote())
    kernel.kill(waiting, no_restart=False)
    with pytest.raises(exceptions.ActorUnavailableError, match=r"Waiting.wait\(\) may or may not have run"):
        kernel.get(ref, timeout=SECONDS)
    again = waiting.wait.options(max_task_retries=1).remote([signal])
    kernel.get(waiting.ready.remote(), timeout=SECONDS)
    kernel.kill(waiting, no_restart=False)
    kernel.get(signal.send.remote("woken"))
    assert kernel.get(again, timeout=SECONDS) == "woken"


def test_kill_takes_only_handles():
    with pytest.raises(exceptions.UsageError, match="takes an actor handle"):
        kernel.kill(kernel.put(1))


# -- async actors --------------------------------------------------------------------------------------------------


def test_async_calls_wait_for_each_other():
    signal = Signal.remote()
    waiting = [signal.wait.remote() for _ in range(20)]
    assert kernel.wait(waiting, timeout=0.05)[0] == []
    kernel.get(signal.send.remote("go"))
    assert kernel.get(waiting, timeout=SECONDS) == ["go"] * 20


def test_plain_methods_of_async_actors():
    assert kernel.get(Signal.remote().plain.remote()) == "plain"


def test_errors_of_async_methods():
    with pytest.raises(KeyError) as caught:
        kernel.get(Signal.remote().fail.remote())
    assert isinstance(caught.value, exceptions.TaskError)


def test_async_generators_stream():
    assert [kernel.get(ref) for ref in Signal.remote().up_to.remote(10)] == list(range(10))


def test_coroutines_have_their_own_context():
    signal = Signal.remote()
    assert kernel.get([signal.who.remote(), signal.who.remote()]) == ["Signal.who"] * 2


def test_coroutines_await_references():
    assert kernel.get(Signal.remote().ask.remote(Counter.remote(1))) == 6


def test_a_running_coroutine_is_cancelled():
    signal = Signal.remote()
    ref = signal.wait.remote()
    kernel.get(signal.plain.remote())
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError, match=r"Signal.wait\(\)"):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(signal.plain.remote()) == "plain"


def test_actor_calls_are_not_cancelled_by_force():
    signal = Signal.remote()
    ref = signal.wait.remote()
    with pytest.raises(exceptions.UsageError, match=r"cancel\(force=True\) can't end the actor call Signal.wait\(\)"):
        kernel.cancel(ref, force=True)
    kernel.get(signal.send.remote())


def test_a_call_that_waits_is_cancelled():
    signal, counter = Signal.remote(), Counter.remote()
    ref = counter.add.remote(signal.wait.remote())
    after = counter.add.remote()
    kernel.cancel(ref)
    with pytest.raises(exceptions.TaskCancelledError):
        kernel.get(ref, timeout=SECONDS)
    assert kernel.get(after, timeout=SECONDS) == 1


def test_exit_actor_in_a_coroutine():
    signal = Signal.remote()
    with pytest.raises(exceptions.ActorDiedError, match=r"Signal.leave\(\) called exit_actor\(\)"):
        kernel.get(signal.leave.remote(), timeout=SECONDS)


def test_async_concurrency_is_limited():
    @kernel.remote(max_concurrency=2)
    class Limited:
        def __init__(self):
            self.active = self.most = 0

        async def work(self):
            self.active += 1
            self.most = max(self.most, self.active)
            while self.most < 2:
                await asyncio.sleep(0.001)  # until another has come
            await asyncio.sleep(0.01)
            self.active -= 1

        async def seen(self):
            return self.most

    limited = Limited.remote()
    kernel.get([limited.work.remote() for _ in range(8)], timeout=SECONDS)
    assert kernel.get(limited.seen.remote()) == 2


# -- threads and groups --------------------------------------------------------------------------------------------


def test_threaded_actors_run_calls_side_by_side():
    @kernel.remote(max_concurrency=3)
    class Meeting:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def arrive(self):
            self.barrier.wait(timeout=SECONDS)
            return kernel.get_runtime_context().get_actor_name()

    meeting = Meeting.remote()
    assert kernel.get([meeting.arrive.remote() for _ in range(3)], timeout=SECONDS) == ["Meeting"] * 3


def test_concurrency_groups_do_not_wait_for_each_other():
    @kernel.remote(concurrency_groups={"io": 2})
    class Grouped:
        def __init__(self):
            self.opened = threading.Event()

        @kernel.method(concurrency_group="io")
        def wait(self):
            return self.opened.wait(timeout=SECONDS)

        def open(self):
            self.opened.set()

    grouped = Grouped.remote()
    waiting = [grouped.wait.remote() for _ in range(2)]
    kernel.get(grouped.open.remote(), timeout=SECONDS)
    assert kernel.get(waiting, timeout=SECONDS) == [True, True]
    assert kernel.get(grouped.wait.options(concurrency_group="io").remote(), timeout=SECONDS) is True


def test_a_group_that_is_not_there():
    with pytest.raises(exceptions.OptionError, match="concurrency group 'oi'"):
        kernel.get(Counter.remote().add.options(concurrency_group="oi").remote(), timeout=SECONDS)


def test_max_pending_calls():
    signal = Signal.remote()
    counter = Counter.options(max_pending_calls=2).remote()
    refs = [counter.add.remote(signal.wait.remote()) for _ in range(2)]
    with pytest.raises(exceptions.PendingCallsLimitError, match=r"has 2 calls of this process waiting"):
        counter.add.remote()
    kernel.get(signal.send.remote(1))
    assert kernel.get(refs, timeout=SECONDS) == [1, 2]
    assert kernel.get(counter.add.remote(), timeout=SECONDS) == 3


# -- options -------------------------------------------------------------------------------------------------------


def test_options_are_checked():
    with pytest.raises(exceptions.OptionError, match="needs a name"):
        Counter.options(lifetime="detached").remote()
    with pytest.raises(exceptions.OptionError, match=r"did you mean 'max_restarts'\?"):
        Counter.options(max_restart=1)
    with pytest.raises(exceptions.OptionError, match="'max_calls' is an option of a task"):
        Counter.options(max_calls=1)


def test_the_rows_of_actors_say_what_they_are():
    counter = Counter.options(name="listed", max_restarts=2).remote()
    assert kernel.get(counter.add.remote()) == 1
    (row,) = [row for row in kernel.actors() if row["name"] == "listed"]
    assert row["class_name"] == "Counter" and row["state"] == "ALIVE" and row["pid"] > 0
    assert row["node_id"] == kernel.nodes()[0]["NodeID"] and not row["detached"] and row["restarts"] == 0
    kernel.kill(counter)
    with pytest.raises(exceptions.ActorDiedError):
        kernel.get(counter.add.remote())
    (row,) = [row for row in kernel.actors() if row["name"] == "listed"]
    assert row["state"] == "DEAD" and "kill" in row["cause"]
    other = Counter.options(name="living").remote()
    assert kernel.get(other.add.remote()) == 1
    names = [row["name"] for row in kernel.actors(dead=False)]
    assert "living" in names and "listed" not in names
