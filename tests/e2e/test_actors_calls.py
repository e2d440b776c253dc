"""Making actors and calling them: constructors, methods, order, handles as values, options."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    OptionError,
    PendingCallsLimitError,
    SerializationError,
    TaskError,
    UsageError,
)
from kernel.testing.faults import wait_until

pytestmark = pytest.mark.usefixtures("session")

SECONDS = 120.0


@kernel.remote
class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.value = start

    def increment(self, by: int = 1) -> int:
        self.value += by
        return self.value

    def read(self) -> int:
        return self.value

    def pid(self) -> int:
        return os.getpid()

    def fail(self, text: str) -> None:
        raise ValueError(text)


@kernel.remote
class Log:
    """Remembers what it was given, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def add(self, item: Any) -> None:
        self.seen.append(item)

    def add_all(self, *items: Any, **named: Any) -> None:
        self.seen.append((items, named))

    def read(self) -> list[Any]:
        return self.seen


def told(error: BaseException) -> str:
    """Return what a user would see."""
    return "".join(traceback.format_exception(error))


@kernel.remote
def after(seconds: float, value: Any) -> Any:
    time.sleep(seconds)
    return value


@kernel.remote
def increment_there(counter: Any, times: int) -> int:
    return sum(1 for _ in kernel.get([counter.increment.remote() for _ in range(times)]))


# -- creation ----------------------------------------------------------------------------------------------------------


def test_actor_keeps_state_in_a_process_of_its_own() -> None:
    counter, other = Counter.remote(), Counter.remote(10)
    assert kernel.get([counter.increment.remote() for _ in range(3)]) == [1, 2, 3]
    assert kernel.get(other.increment.remote()) == 11
    assert len({os.getpid(), *kernel.get([counter.pid.remote(), other.pid.remote()])}) == 3


def test_creation_does_not_wait_for_the_constructor(tmp_path: Path) -> None:
    created = tmp_path / "created"

    @kernel.remote
    class Slow:
        def __init__(self) -> None:
            wait_until(created.exists, SECONDS, "the driver's next line")

        def ok(self) -> bool:
            return True

    ref = Slow.remote().ok.remote()
    created.touch()
    assert kernel.get(ref)


def test_class_stays_usable_as_a_plain_one() -> None:
    class Plain:
        def one(self) -> int:
            return 1

    remote = kernel.remote(Plain)
    assert Plain().one() == kernel.get(remote.remote().one.remote()) == 1


def test_constructor_takes_references_by_value_and_may_get() -> None:
    @kernel.remote
    class Holder:
        def __init__(self, value: int, inner: list[Any], *, named: int) -> None:
            self.all = [value, kernel.get(inner[0]), named]

        def read(self) -> list[int]:
            return self.all

    holder = Holder.remote(after.remote(0.05, 1), [kernel.put(2)], named=kernel.put(3))
    assert kernel.get(holder.read.remote()) == [1, 2, 3]


def test_constructor_with_a_large_argument_outlives_every_handle_of_ours() -> None:
    array = np.arange(200_000)

    @kernel.remote
    class Sum:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def total(self) -> int:
            return int(self.array.sum())

    assert kernel.get(Sum.remote(array).total.remote()) == array.sum()
    assert kernel.get(Sum.remote(kernel.put(array)).total.remote()) == array.sum()


@pytest.mark.parametrize(("args", "kwargs"), [((1, 2), {}), ((), {"stat": 1})])
def test_constructor_arguments_are_checked_at_the_callers_line(args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError, match=r"Counter\.remote\(\): "):
        Counter.remote(*args, **kwargs)


def test_constructor_of_a_class_without_one_takes_nothing() -> None:
    @kernel.remote
    class Empty:
        pass

    with pytest.raises(TypeError, match=r"Empty\(\) takes no arguments"):
        Empty.remote(1)


def test_argument_that_can_not_be_pickled_is_named_at_the_callers_line() -> None:
    with pytest.raises(SerializationError, match="start"):
        Counter.remote(start={"lock": threading.Lock()})


def test_constructor_that_raises_fails_every_call_with_its_error() -> None:
    @kernel.remote
    class Broken:
        def __init__(self) -> None:
            raise KeyError("no such table")

        def ok(self) -> bool:
            return True

    broken = Broken.remote()
    for _ in range(2):
        with pytest.raises(KeyError, match="no such table") as caught:
            kernel.get(broken.ok.remote())
        assert isinstance(caught.value, TaskError) and isinstance(caught.value, ActorDiedError)
        assert "in Broken.__init__(), process" in told(caught.value)
    assert "its constructor raised" in kernel.explain(broken)


def test_failed_constructor_argument_fails_every_call() -> None:
    @kernel.remote
    def fails() -> int:
        raise ZeroDivisionError("in the argument")

    counter = Counter.remote(fails.remote())
    with pytest.raises(ZeroDivisionError, match="in the argument"):
        kernel.get(counter.read.remote())
    ready = fails.remote()
    kernel.wait([ready])
    with pytest.raises(ZeroDivisionError):
        kernel.get(Counter.remote(ready).read.remote())


def test_handle_may_overtake_its_actor() -> None:
    @kernel.remote
    def read(counters: list[Any]) -> int:
        return kernel.get(counters[0].read.remote())

    waiting = Counter.remote(after.remote(0.3, 5))
    assert kernel.get(read.remote([waiting]), timeout=SECONDS) == 5
    for _ in range(20):
        assert kernel.get(read.remote([Counter.remote(7)]), timeout=SECONDS) == 7


def test_class_can_not_be_called_nor_decorated_twice() -> None:
    with pytest.raises(TypeError, match=r"use Counter\.remote\(\.\.\.\)"):
        Counter()
    with pytest.raises(UsageError, match=r"remote already; use \.options"):
        kernel.remote(Counter)
    with pytest.raises(TypeError, match=r"use \.increment\.remote\(\.\.\.\)"):
        Counter.remote().increment()


def test_unknown_options_are_answered_with_the_nearest_name() -> None:
    with pytest.raises(OptionError, match="did you mean 'max_restarts'"):
        kernel.remote(max_restart=1)(type("Any", (), {}))
    with pytest.raises(OptionError, match="'num_returns' is an option of a task or an actor method, not of an actor"):
        Counter.options(num_returns=2)
    with pytest.raises(OptionError, match="'num_cpus' is an option of a task or an actor, not of an actor method"):
        Counter.remote().increment.options(num_cpus=1)
    with pytest.raises(OptionError, match="max_restarts must be"):
        Counter.options(max_restarts=-2)


# -- calls -------------------------------------------------------------------------------------------------------------


def test_unknown_method_is_answered_with_the_nearest_name() -> None:
    counter = Counter.remote()
    with pytest.raises(AttributeError, match=r"actor Counter has no method 'incremnt'; did you mean 'increment'\?"):
        counter.incremnt  # noqa: B018
    assert not hasattr(counter, "__len__")
    assert "increment" in dir(counter)


def test_failing_method_raises_the_users_own_type_and_leaves_the_actor_alive() -> None:
    counter = Counter.remote()
    with pytest.raises(ValueError, match="too much") as caught:
        kernel.get(counter.fail.remote("too much"))
    assert isinstance(caught.value, TaskError) and not isinstance(caught.value, ActorDiedError)
    assert "in Counter.fail(), process" in told(caught.value)
    assert kernel.get(counter.increment.remote()) == 1


def test_bad_arguments_of_a_method_raise_at_get() -> None:
    with pytest.raises(TypeError, match="by_how_much"):
        kernel.get(Counter.remote().increment.remote(by_how_much=2))


def test_calls_of_a_caller_run_in_order_though_arguments_come_late() -> None:
    log = Log.remote()
    log.add.remote(0)
    log.add.remote(after.remote(0.2, 1))
    log.add.remote(2)
    log.add.remote(after.remote(0.05, 3))
    for number in range(4, 50):
        log.add.remote(number)
    assert kernel.get(log.read.remote()) == list(range(50))


def test_call_with_a_failed_argument_fails_and_those_behind_it_run() -> None:
    @kernel.remote
    def fails() -> None:
        time.sleep(0.05)
        raise RuntimeError("no value")

    log = Log.remote()
    first, bad, last = log.add.remote(1), log.add.remote(fails.remote()), log.add.remote(2)
    with pytest.raises(RuntimeError, match="no value"):
        kernel.get(bad)
    kernel.get([first, last])
    assert kernel.get(log.read.remote()) == [1, 2]


def test_each_thread_of_a_caller_has_its_own_order() -> None:
    log = Log.remote()

    def work(thread: int) -> None:
        for number in range(200):
            log.add.remote((thread, number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = kernel.get(log.read.remote())
    assert len(seen) == 800
    for number in range(4):
        assert [item for thread, item in seen if thread == number] == list(range(200))


def test_several_callers_each_in_its_own_order() -> None:
    @kernel.remote
    def work(log: Any, name: str) -> None:
        for number in range(50):
            log.add.remote((name, number))

    log = Log.remote()
    kernel.get([work.remote(log, "a"), work.remote(log, "b")])
    seen = kernel.get(log.read.remote())
    for name in "ab":
        numbers = [item for who, item in seen if who == name]
        assert numbers == sorted(numbers)


def test_call_whose_reference_is_dropped_runs_all_the_same(eventually: Callable[..., Any]) -> None:
    counter = Counter.remote()
    for _ in range(10):
        counter.increment.remote()
    eventually(lambda: kernel.get(counter.read.remote()) == 10)


def test_references_among_many_arguments_are_resolved_one_by_one() -> None:
    log = Log.remote()
    refs = [after.remote(0, number) for number in range(3)]
    log.add_all.remote(*refs, "plain", key=kernel.put("named"), other=1)
    assert kernel.get(log.read.remote()) == [((0, 1, 2, "plain"), {"key": "named", "other": 1})]


def test_result_can_be_passed_on_without_get() -> None:
    first, second = Counter.remote(5), Counter.remote()
    assert kernel.get(second.increment.remote(first.increment.remote(second.increment.remote()))) == 7


def test_large_arguments_and_results_go_through_the_store() -> None:
    @kernel.remote
    class Scale:
        def double(self, array: np.ndarray) -> np.ndarray:
            return array * 2

    scale, array = Scale.remote(), np.arange(500_000)
    assert (kernel.get(scale.double.remote(array)) == array * 2).all()
    chained = scale.double.remote(scale.double.remote(array))
    assert (kernel.get(chained) == array * 4).all()


def test_results_come_with_wait_and_as_futures() -> None:
    counter = Counter.remote()
    refs = [counter.increment.remote() for _ in range(5)]
    ready, others = kernel.wait(refs, num_returns=5)
    assert (len(ready), others) == (5, [])
    assert refs[4].future().result(timeout=SECONDS) == 5


def test_get_that_takes_too_long_says_what_runs() -> None:
    @kernel.remote
    class Sleeper:
        def nap(self, seconds: float) -> None:
            time.sleep(seconds)

    sleeper = Sleeper.remote()
    kernel.get(sleeper.nap.remote(0))
    first, second = sleeper.nap.remote(600), sleeper.nap.remote(0)
    with pytest.raises(GetTimeoutError, match=r"Sleeper\.nap\(\)"):
        kernel.get(first, timeout=1)
    with pytest.raises(GetTimeoutError, match="behind 1 earlier call"):
        kernel.get(second, timeout=0.1)
    kernel.kill(sleeper)


# -- classes -----------------------------------------------------------------------------------------------------------


class Base:
    kind = "base"

    def __init__(self, name: str) -> None:
        self.name = name

    def greet(self, greeting: str = "hello") -> str:
        return f"{greeting} {self.name}"

    @property
    def length(self) -> int:
        return len(self.name)


@kernel.remote
class Child(Base):
    kind = "child"

    def __init__(self, name: str) -> None:
        super().__init__(name.upper())

    def greet(self, greeting: str = "hello") -> str:
        return super().greet(greeting) + f" ({self.length})"

    @staticmethod
    def add(a: int, b: int) -> int:
        return a + b

    @classmethod
    def which(cls) -> str:
        return f"{cls.__name__} {cls.kind}"

    def __call__(self, suffix: str) -> str:
        return self.name + suffix

    def _hidden(self) -> str:
        return "found"


def test_inheritance_super_and_every_kind_of_method() -> None:
    child = Child.remote("ann")
    assert kernel.get(child.greet.remote()) == "hello ANN (3)"
    assert kernel.get(child.add.remote(1, 2)) == 3
    assert kernel.get(child.which.remote()) == "Child child"
    assert kernel.get(child.__call__.remote("!")) == "ANN!"
    assert kernel.get(child._hidden.remote()) == "found"
    with pytest.raises(AttributeError, match="has no method 'length'"):
        child.length  # noqa: B018


class Named:
    """Is named in its own methods by what its decorator made of it."""

    def __init__(self, value: int) -> None:
        self.value = value

    def text(self) -> str:
        return f"Named {self.value}"

    @classmethod
    def kind(cls) -> str:
        return "Named"


@kernel.remote
class Naming(Named):
    def __init__(self, value: int) -> None:
        super(Naming, self).__init__(value)  # noqa: UP008

    def text(self) -> str:
        return super(Naming, self).text() + ", Naming"  # noqa: UP008

    def shortly(self) -> str:
        return super().text()

    @classmethod
    def kind(cls) -> str:
        return super(Naming, cls).kind() + ", Naming"  # noqa: UP008

    def is_one(self) -> tuple[bool, bool, bool]:
        return isinstance(self, Naming), isinstance(self, Named), isinstance(1, Naming)

    def sibling(self) -> str:
        return kernel.get(Naming.remote(self.value + 1).text.remote())


def test_a_method_may_name_its_class_in_super_and_isinstance() -> None:
    @kernel.remote
    class Inner(Named):
        def text(self) -> str:
            return super(Inner, self).text() + ", Inner"  # noqa: UP008

    actor = Naming.remote(3)
    assert kernel.get(actor.text.remote()) == "Named 3, Naming"
    assert kernel.get(actor.shortly.remote()) == "Named 3"
    assert kernel.get(actor.kind.remote()) == "Named, Naming"
    assert Naming.kind() == "Named, Naming"
    assert kernel.get(actor.is_one.remote()) == (True, True, False)
    assert kernel.get(actor.sibling.remote()) == "Named 4, Naming"
    assert kernel.get(Inner.remote(5).text.remote()) == "Named 5, Inner"


def test_an_actor_class_can_not_be_inherited_from() -> None:
    with pytest.raises(TypeError, match="a class can't inherit from the actor class Counter: inherit from a"):

        class Double(Counter):  # type: ignore[misc]
            pass


def test_inherited_methods_take_options() -> None:
    class Pair:
        @kernel.method(num_returns=2)
        def both(self) -> tuple[int, int]:
            return 1, 2

    @kernel.remote
    class More(Pair):
        pass

    assert kernel.get(More.remote().both.remote()) == [1, 2]


# -- options -----------------------------------------------------------------------------------------------------------


def test_method_options_in_the_class_and_at_the_call() -> None:
    @kernel.remote
    class Returns:
        @kernel.method(num_returns=2)
        def pair(self) -> tuple[str, str]:
            return "a", "b"

        def triple(self) -> list[int]:
            return [1, 2, 3]

        def nothing(self) -> None:
            return None

    returns = Returns.remote()
    first, second = returns.pair.remote()
    assert (kernel.get(first), kernel.get(second)) == ("a", "b")
    assert kernel.get(returns.triple.options(num_returns=3).remote()) == [1, 2, 3]
    assert kernel.get(returns.pair.options(num_returns=1).remote()) == ("a", "b")
    assert returns.nothing.options(num_returns=0).remote() is None
    with pytest.raises(ValueError, match=r"Returns\.triple\(\) has num_returns=2"):
        kernel.get(returns.triple.options(num_returns=2).remote())


def test_options_make_another_class_and_leave_the_first() -> None:
    named = Counter.options(name="by options")
    assert named is not Counter
    handle = named.remote(3)
    assert kernel.get(kernel.get_actor("by options").read.remote()) == 3
    assert kernel.get(Counter.remote().read.remote()) == 0
    kernel.kill(handle)


def test_too_many_pending_calls_are_refused_and_results_make_room(tmp_path: Path) -> None:
    opened = tmp_path / "opened"

    @kernel.remote
    class Gate:
        def wait(self) -> None:
            wait_until(opened.exists, SECONDS, "the opening of the gate")

    gate = Gate.options(max_pending_calls=3).remote()
    refs = [gate.wait.remote() for _ in range(3)]
    with pytest.raises(PendingCallsLimitError, match=r"Gate .* has 3 calls .* max_pending_calls"):
        gate.wait.remote()
    opened.touch()
    kernel.get(refs)
    kernel.get(gate.wait.remote())


def test_generators_stream_while_they_run() -> None:
    @kernel.remote
    class Source:
        def __init__(self) -> None:
            self.made = 0

        def items(self, count: int) -> Iterator[int]:
            for number in range(count):
                self.made += 1
                yield number

        def broken(self) -> Iterator[int]:
            yield 1
            raise LookupError("no more")

        @kernel.method(num_returns="dynamic")
        def dynamic(self, count: int) -> Iterator[np.ndarray]:
            for number in range(count):
                yield np.full(50_000, number)

    source = Source.remote()
    assert [kernel.get(ref) for ref in source.items.remote(100)] == list(range(100))
    stream = source.broken.remote()
    assert kernel.get(next(stream)) == 1
    with pytest.raises(LookupError, match="no more"):
        kernel.get(next(stream))
    with pytest.raises(StopIteration):
        next(stream)
    assert [kernel.get(ref)[0] for ref in kernel.get(source.dynamic.remote(3))] == [0, 1, 2]


# -- handles -----------------------------------------------------------------------------------------------------------


def test_handles_go_anywhere_and_reach_the_same_actor() -> None:
    counter = Counter.remote()

    @kernel.remote
    def in_closure() -> int:
        return kernel.get(counter.increment.remote())

    @kernel.remote
    class Caller:
        def __init__(self, target: Any) -> None:
            self.target = target

        def call(self) -> int:
            return kernel.get(self.target.increment.remote())

    @kernel.remote
    def in_container(found: dict[str, list[Any]]) -> int:
        return kernel.get(found["all"][0].increment.remote())

    assert kernel.get(increment_there.remote(counter, 5)) == 5
    assert kernel.get(in_closure.remote()) == 6
    assert kernel.get(in_container.remote({"all": [counter]})) == 7
    assert kernel.get(Caller.remote(counter).call.remote()) == 8
    assert kernel.get(kernel.get(kernel.put(counter)).increment.remote()) == 9


def test_handle_passed_through_several_hands() -> None:
    @kernel.remote
    def pass_on(counter: Any, hops: int) -> int:
        if hops:
            return kernel.get(pass_on.remote(counter, hops - 1))
        return kernel.get(counter.increment.remote())

    assert kernel.get(pass_on.remote(Counter.remote(), 3)) == 1


def test_actors_create_actors_and_return_their_handles() -> None:
    @kernel.remote
    class Parent:
        def __init__(self, children: int) -> None:
            self.children = [Counter.remote(number) for number in range(children)]

        def total(self) -> int:
            return sum(kernel.get([child.read.remote() for child in self.children]))

        def child(self, index: int) -> Any:
            return self.children[index]

    parent = Parent.remote(3)
    assert kernel.get(parent.total.remote()) == 3
    child = kernel.get(parent.child.remote(2))
    assert kernel.get(child.increment.remote()) == 3
    assert kernel.get(parent.total.remote()) == 4


def test_task_creates_an_actor_that_outlives_it() -> None:
    @kernel.remote
    def make() -> Any:
        return Counter.remote(41)

    assert kernel.get(kernel.get(make.remote()).increment.remote()) == 42


def test_calls_of_a_task_that_drops_its_handle_are_made(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    def leave_calls(log: Any) -> None:
        log.add.remote(after.remote(0.1, "late"))

    @kernel.remote
    class Keeper:
        def __init__(self, log: Any) -> None:
            self.log = log

        def read(self) -> list[Any]:
            return kernel.get(self.log.read.remote())

    log = Log.remote()
    keeper = Keeper.remote(log)
    kernel.get(leave_calls.remote(log))
    del log
    eventually(lambda: kernel.get(keeper.read.remote()) == ["late"])


def test_equal_handles_are_equal_and_hash_alike() -> None:
    @kernel.remote
    def send_back(handles: list[Any]) -> list[Any]:
        return handles

    counter, other = Counter.remote(), Counter.remote()
    [back] = kernel.get(send_back.remote([counter]))
    assert back == counter and hash(back) == hash(counter)
    assert counter != other and counter != "counter"
    assert len({counter, back, other}) == 2
    assert repr(counter).startswith("Actor(Counter, ")


def test_method_object_keeps_its_actor() -> None:
    increment = Counter.remote(4).increment
    assert kernel.get(increment.remote()) == 5


def test_chained_handles_live_as_long_as_their_calls() -> None:
    assert kernel.get([Counter.remote(number).increment.remote() for number in range(5)]) == [1, 2, 3, 4, 5]


def test_actor_knows_where_it_is_and_who_it_is() -> None:
    @kernel.remote
    class Curious:
        def ask(self) -> dict[str, Any]:
            context = kernel.get_runtime_context()
            return {
                "actor": context.get_actor_id(),
                "name": context.get_actor_name(),
                "task": context.get_task_name(),
                "attempt": context.get_attempt_number(),
                "restarted": context.was_current_actor_reconstructed,
                "namespace": context.namespace,
                "same": context.current_actor == self_handle,
                "worker": context.get_worker_id(),
                "node": context.get_node_id(),
            }

        def me(self) -> Any:
            return kernel.get_runtime_context().current_actor

        def one(self) -> int:
            return 1

    self_handle: Any = None
    curious = Curious.remote()
    told = kernel.get(curious.ask.remote())
    here = kernel.get_runtime_context()
    assert told["actor"] == curious._actor_id.hex()
    assert (told["name"], told["task"], told["attempt"]) == ("Curious", "Curious.ask", 0)
    assert told["restarted"] is False
    assert told["namespace"] == here.namespace
    assert told["node"] == here.get_node_id() and told["worker"] != here.get_worker_id()
    me = kernel.get(curious.me.remote())
    assert me == curious and kernel.get(me.one.remote()) == 1
    assert here.get_actor_id() is None
    with pytest.raises(UsageError, match="only inside an actor"):
        here.current_actor  # noqa: B018


def test_exit_actor_outside_of_an_actor_is_refused() -> None:
    with pytest.raises(UsageError, match="only inside a method of an actor"):
        kernel.exit_actor()


def test_kill_takes_only_handles() -> None:
    with pytest.raises(UsageError, match="kill\\(\\) takes an actor handle"):
        kernel.kill(kernel.put(1))


def test_references_in_an_actors_state_keep_objects_until_they_are_dropped(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Cache:
        def __init__(self) -> None:
            self.refs: list[Any] = []

        def keep(self, refs: list[Any]) -> None:
            self.refs += refs

        def total(self) -> int:
            return sum(int(array.sum()) for array in kernel.get(self.refs))

        def drop(self) -> None:
            self.refs.clear()

    cache = Cache.remote()
    refs = [kernel.put(np.ones(100_000)), kernel.put(np.ones(100_000))]
    both = {ref.binary() for ref in refs}
    kernel.get(cache.keep.remote(refs))
    del refs
    assert kernel.get(cache.total.remote()) == 200_000
    assert both <= _stored()
    kernel.get(cache.drop.remote())
    eventually(lambda: not both & _stored())


def _stored() -> set[bytes]:
    from kernel.runtime.current import get_runtime

    return {object for object, *_ in get_runtime().query("memory")["stored"]}


def test_a_hundred_actors() -> None:
    counters = [Counter.remote(number) for number in range(100)]
    assert kernel.get([counter.read.remote() for counter in counters], timeout=SECONDS) == list(range(100))
    assert len(set(kernel.get([counter.pid.remote() for counter in counters]))) == 100


def test_calls_to_a_dead_actor_say_how_it_died() -> None:
    counter = Counter.remote()
    kernel.get(counter.read.remote())
    kernel.kill(counter)
    with pytest.raises(ActorDiedError, match=r"Counter\.read\(\) failed because the actor .* is dead: it was killed"):
        kernel.get(counter.read.remote())
