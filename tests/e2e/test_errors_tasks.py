"""What users see when their code raises: the type, the story, the causes; and what can't be sent."""

from __future__ import annotations

import os
import threading
import time
import traceback

import numpy as np
import pytest

import kernel
from kernel import exceptions
from kernel.testing.faults import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("session")


@kernel.remote
def fail(error):
    raise error


@kernel.remote
def identity(value):
    return value


class AppError(Exception):
    def __init__(self, code, detail):
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class Strange(Exception):
    """Can't be made from its arguments."""

    def __init__(self, *, needed):
        super().__init__("strange")
        self.needed = needed


class Locked(Exception):
    def __init__(self):
        super().__init__("with a lock")
        self.lock = threading.Lock()


class Unraisable(Exception):
    def __reduce__(self):
        raise RuntimeError("will not be pickled")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        KeyError("key"),
        FileNotFoundError(2, "No such file", "x.txt"),
        UnicodeDecodeError("utf8", b"\xff", 0, 1, "bad byte"),
        StopIteration(3),
        ZeroDivisionError(),
        AppError(7, "app"),
        Strange(needed=1),
        TimeoutError("own timeout"),
        SystemError("s"),
        AssertionError("a"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_an_instance_of_the_users_type_and_a_task_error(error):
    with pytest.raises(type(error)) as caught:
        kernel.get(fail.remote(error))
    assert isinstance(caught.value, exceptions.TaskError)
    assert isinstance(caught.value, exceptions.KernelError)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_what_is_not_an_exception_arrives_as_a_task_error_that_says_where_it_was_raised(kind):
    with pytest.raises(exceptions.TaskError, match="by hand") as caught:
        kernel.get(fail.remote(kind("by hand")))
    assert type(caught.value.cause) is kind
    assert any("in fail()" in note for note in caught.value.__notes__)


def test_an_error_that_holds_a_lock_arrives_without_it():
    @kernel.remote
    def task():
        raise Locked

    with pytest.raises(Locked) as caught:
        kernel.get(task.remote())
    assert isinstance(caught.value, exceptions.TaskError)
    assert any("lock" in note for note in caught.value.__notes__)


def test_exceptions_are_values_too():
    error = AppError(1, {"detail": 2})
    error.__notes__ = ["noted"]
    back = kernel.get(identity.remote({"error": error}))["error"]
    assert type(back) is AppError
    assert (back.code, back.detail, back.args, back.__notes__) == (1, {"detail": 2}, error.args, ["noted"])


def test_attributes_survive():
    with pytest.raises(AppError) as caught:
        kernel.get(fail.remote(AppError(7, ["x"])))
    assert caught.value.code == 7
    assert caught.value.detail == ["x"]
    assert caught.value.args == ("7: ['x']",)
    assert type(caught.value.cause) is AppError


def test_the_message_names_task_process_and_node_and_shows_the_users_line():
    @kernel.remote
    def task():
        process = os.getpid()
        raise ValueError(f"in process {process}")

    with pytest.raises(ValueError) as caught:
        kernel.get(task.remote())
    shown = "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__))
    assert "task()" in shown
    assert "test_errors_tasks.py" in shown
    assert 'raise ValueError(f"in process {process}")' in shown
    pid = str(caught.value.cause).rsplit(" ", 1)[1]
    assert f"process {pid} on node" in shown
    assert kernel.nodes()[0]["NodeID"][:8] in shown
    assert "plugins/processes/kernel_processes/worker/executor.py" not in shown


def test_a_generator_that_a_pools_thread_runs_shows_the_users_lines_only():
    @kernel.remote
    class Actor:
        async def waits(self):
            pass

        def items(self):
            yield 1
            raise ValueError("the second")

    *_, last = Actor.remote().items.remote()
    with pytest.raises(ValueError, match="the second") as caught:
        kernel.get(last)
    names = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["get", "items"], names


def test_the_story_survives_nested_tasks():
    @kernel.remote
    def inner():
        raise AppError(1, "deep down")

    @kernel.remote
    def middle():
        return kernel.get(inner.remote())

    @kernel.remote
    def outer():
        return kernel.get(middle.remote())

    with pytest.raises(AppError, match="deep down") as caught:
        kernel.get(outer.remote())
    shown = "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__))
    for name in ("inner()", "middle()", "outer()"):
        assert name in shown
    assert caught.value.code == 1


def test_cause_and_context_are_kept():
    @kernel.remote
    def task():
        try:
            {}["missing"]
        except KeyError as error:
            raise AppError(2, "wrapped") from error

    with pytest.raises(AppError) as caught:
        kernel.get(task.remote())
    shown = "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__))
    assert "KeyError: 'missing'" in shown
    assert "direct cause" in shown


def test_what_was_being_handled_is_shown_too():
    @kernel.remote
    def task():
        try:
            {}["missing"]
        except KeyError:
            raise AppError(2, "on top")  # noqa: B904

    with pytest.raises(AppError) as caught:
        kernel.get(task.remote())
    shown = "".join(traceback.format_exception(type(caught.value), caught.value, caught.value.__traceback__))
    assert "KeyError: 'missing'" in shown
    assert "During handling of the above exception" in shown


def test_an_argument_that_failed_fails_the_task_that_wanted_it():
    broken = fail.remote(AppError(3, "first"))
    for ref in (identity.remote(broken), identity.remote(value=broken), identity.remote(identity.remote(broken))):
        with pytest.raises(AppError, match="first"):
            kernel.get(ref)


def test_a_list_of_references_raises_the_first_failure():
    refs = [identity.remote(1), fail.remote(ValueError("one")), fail.remote(KeyError("two"))]
    with pytest.raises(ValueError, match="one"):
        kernel.get(refs)


def test_an_error_is_raised_anew_each_time():
    ref = fail.remote(ValueError("again"))
    caught = []
    for _ in range(3):
        with pytest.raises(ValueError, match="again") as info:
            kernel.get(ref)
        caught.append(info.value)
    assert caught[0] is not caught[1]
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in caught}) == 1


def test_errors_pass_through_other_tasks_as_values():
    @kernel.remote
    def catch(refs):
        try:
            kernel.get(refs[0])
        except AppError as error:
            return error

    error = kernel.get(catch.remote([fail.remote(AppError(4, "caught"))]))
    assert isinstance(error, AppError)
    assert error.code == 4


def test_an_error_that_refuses_to_be_pickled_is_told_anyway():
    @kernel.remote
    def task():
        raise Unraisable("still readable")

    with pytest.raises(exceptions.TaskError, match="still readable"):
        kernel.get(task.remote())


def test_a_type_that_can_not_be_subclassed_is_still_told():
    class Final(Exception):
        def __init_subclass__(cls, **options):
            raise TypeError("final")

    with pytest.raises(exceptions.TaskError, match="the last of its kind") as caught:
        kernel.get(fail.remote(Final("the last of its kind")))
    assert type(caught.value.cause).__name__ == "Final"


def test_a_missing_module_in_a_worker():
    @kernel.remote
    def task():
        import module_that_is_not_there  # noqa: F401

    with pytest.raises(ModuleNotFoundError, match="module_that_is_not_there"):
        kernel.get(task.remote())


def test_wrong_arguments_are_the_calls_error():
    @kernel.remote
    def two(a, b):
        return a + b

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        kernel.get(two.remote(1))
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        kernel.get(two.remote(1, 2, c=3))


def test_raising_something_that_is_no_exception():
    @kernel.remote
    def task():
        raise 5  # noqa: B016

    with pytest.raises(TypeError, match="exceptions must derive from BaseException"):
        kernel.get(task.remote())


# -- what can't be sent ------------------------------------------------------------------------------------------------


def test_an_argument_that_can_not_be_sent_names_its_path_at_the_call():
    class Handler:
        def __init__(self):
            self.lock = threading.Lock()

    class Logger:
        def __init__(self):
            self.handlers = [Handler()]

    with pytest.raises(exceptions.SerializationError) as caught:
        identity.remote({"logger": Logger()})
    message = str(caught.value)
    assert "identity()" in message
    assert '["logger"].handlers[0].lock' in message
    assert isinstance(caught.value, TypeError)


def test_a_keyword_argument_is_named():
    with pytest.raises(TypeError, match="value"):
        identity.remote(value=threading.Lock())


def test_a_return_value_that_can_not_be_sent_names_its_path():
    @kernel.remote
    def task():
        return {"state": [1, threading.Lock()]}

    with pytest.raises(TypeError, match=r'return value of task\(\).*\["state"\]\[1\]'):
        kernel.get(task.remote())


def test_one_of_several_return_values_that_can_not_be_sent():
    @kernel.remote(num_returns=2)
    def task():
        return 1, threading.Lock()

    for ref in task.remote():
        with pytest.raises(TypeError, match=r"return value of task\(\)"):
            kernel.get(ref)


def test_a_closure_that_can_not_be_sent_names_the_variable():
    lock = threading.Lock()

    @kernel.remote
    def task():
        return lock

    with pytest.raises(exceptions.SerializationError, match="lock"):
        task.remote()


def test_put_of_what_can_not_be_sent():
    with pytest.raises(exceptions.SerializationError, match=r"\[1\]"):
        kernel.put([0, threading.Lock()])


def test_a_value_that_can_not_be_read_back():
    class Poisoned:
        def __reduce__(self):
            return explode, ()

    with pytest.raises(exceptions.TaskError, match="can't be read back"):
        kernel.get(identity.remote(Poisoned()))
    with pytest.raises(RuntimeError, match="can't be read back"):
        kernel.get(kernel.put(Poisoned()))


def test_a_function_that_can_not_be_read_is_called_by_its_name():
    class Poisoned:
        def __reduce__(self):
            return explode, ()

    poison = Poisoned()

    @kernel.remote
    def poisoned():
        return poison

    with pytest.raises(RuntimeError, match=r"can't be read back") as caught:
        kernel.get(poisoned.remote())
    assert "in poisoned()" in "".join(caught.value.__notes__)


def explode():
    raise RuntimeError("can't be read back")


def test_the_worker_goes_on_after_any_error():
    @kernel.remote
    def sometimes(i):
        if i % 3 == 0:
            raise ValueError(i)
        return i

    refs = [sometimes.remote(i) for i in range(200)]
    for i, ref in enumerate(refs):
        if i % 3 == 0:
            with pytest.raises(ValueError):
                kernel.get(ref)
        else:
            assert kernel.get(ref) == i


def test_every_error_is_in_kernel_exceptions():
    for name in ("GetTimeoutError", "TaskCancelledError", "WorkerDiedError", "ActorDiedError", "ObjectLostError",
                 "OwnerDiedError", "ObjectStoreFullError", "TaskError"):  # fmt: skip
        assert issubclass(getattr(exceptions, name), exceptions.KernelError)


class Unreadable:
    """A value that is pickled, and whose unpickling raises."""

    def __reduce__(self):
        return raise_unreadable, ("nothing comes of this",)


def raise_unreadable(text):
    raise ValueError(text)


@kernel.remote
def make_unreadable(size):
    return [Unreadable(), np.zeros(size)]


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("make", [lambda: kernel.put(Unreadable()), lambda: make_unreadable.remote(0),
                                  lambda: make_unreadable.remote(100_000)], ids=["put", "small", "large"])  # fmt: skip
def test_a_value_whose_unpickling_raises_is_named(make, several):
    ref = make()
    with pytest.raises(ValueError, match="nothing comes of this") as caught:
        kernel.get([ref] if several else ref)
    assert caught.value.__notes__[-1].startswith(
        f"  raised by unpickling object {ref.hex()}, made in {__file__}, line "
    )


@kernel.remote
def take(*values, **named):
    return "never"


@kernel.remote
class Taker:
    def take(self, *values, **named):
        return "never"


@pytest.mark.parametrize("kind", ["task", "method"])
def test_an_argument_whose_unpickling_raises_is_named(kind):
    taker = Taker.remote()
    call = take.remote if kind == "task" else taker.take.remote
    stored = make_unreadable.remote(100_000)
    kernel.wait([stored], timeout=PATIENCE_SECONDS)
    for ref, what in [
        (call(1, Unreadable()), "the arguments"),
        (call(1, kernel.put(Unreadable())), "argument 2"),
        (call(1, there=kernel.put(Unreadable())), "argument 'there'"),
        (call(stored), f"object {stored.hex()}, argument 1"),
        (call(1, [Unreadable(), np.zeros(100_000)]), "the arguments"),
    ]:
        with pytest.raises(ValueError, match="nothing comes of this") as caught:
            kernel.get(ref, timeout=PATIENCE_SECONDS)
        note = f"  raised by unpickling {what} of the call, which did not begin"
        assert note in caught.value.__notes__ and note in caught.value.remote_traceback


@kernel.remote
def until_there(path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return "there"


@kernel.remote(max_retries=0)
def die():
    os._exit(3)


@kernel.remote
def get_both(refs):
    try:
        kernel.get(refs, timeout=PATIENCE_SECONDS)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("kind", ["raises", "dies", "known before", "borrowed"])
def test_a_get_of_several_ends_with_the_first_failure_and_the_others_go_on(kind, tmp_path):
    path = str(tmp_path / "go")
    slow = until_there.remote(path)
    bad = die.remote() if kind == "dies" else fail.remote(ValueError("at once"))
    if kind == "known before":
        kernel.wait([bad])
    if kind == "borrowed":
        assert "at once" in kernel.get(get_both.options(num_cpus=0).remote([slow, bad]), timeout=PATIENCE_SECONDS)
    else:
        expected = exceptions.WorkerDiedError if kind == "dies" else ValueError
        with pytest.raises(expected):
            kernel.get([slow, bad], timeout=PATIENCE_SECONDS)
    assert not slow.is_ready()
    (tmp_path / "go").touch()
    assert kernel.get(slow, timeout=PATIENCE_SECONDS) == "there"


def test_of_several_failures_that_are_known_the_first_of_the_list_is_raised():
    refs = [fail.remote(KeyError("first")), fail.remote(ValueError("second"))]
    kernel.wait(refs, num_returns=2)
    with pytest.raises(KeyError):
        kernel.get(refs)
