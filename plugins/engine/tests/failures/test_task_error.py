"""What a task raised arrives whole, whatever it was, and reads well."""

from __future__ import annotations

import asyncio
import copy
import enum
import linecache
import pickle
import subprocess
import sys
import threading
import timeit
import traceback
from typing import Any

import cloudpickle
import pytest

from kernel.runtime.remote_traceback import frames_of, traceback_of
from kernel_engine.failures.task_error import capture, hide_internal_frames, rebuild, record_of
from kernel_spec.errors import ActorDiedError, KernelError, ObjectLostError, SerializationError, TaskError

WHERE = {"process": "p1", "pid": 1234, "node": "ab12"}
NEWER = sys.version_info >= (3, 11)


def run(function: Any, *args: Any, name: str | None = None, actor: str | None = None) -> bytes:
    """Be the worker: run a task that raises, return what it sends."""
    try:
        function(*args)
    except BaseException as error:
        return capture(error, task_name=name or function.__name__, actor=actor, **WHERE)
    raise AssertionError("it did not raise")


def raised(exception: BaseException) -> BaseException:
    """Return what the owner gets for a task that raises `exception`."""

    def task() -> None:
        raise exception

    return rebuild(run(task))


def divide(x: int) -> float:
    return 1 / x


class Coded(Exception):
    def __init__(self, code: int, *, hint: str) -> None:
        super().__init__(f"failed with {code}")
        self.code = code
        self.hint = hint


class Locked(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text, threading.Lock())
        self.lock = threading.Lock()
        self.number = 7


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class OwnText(Exception):
    def __str__(self) -> str:
        return f"own text of {self.args}"


class Slotted(Exception):
    __slots__ = ("detail",)

    def __init__(self, detail: Any) -> None:
        super().__init__("slotted")
        self.detail = detail


class FrozenLike(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.__dict__["text"] = text

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("frozen")


class ReadOnlyMessage(Exception):
    @property
    def message(self) -> str:
        return "from a property"

    @property
    def cause(self) -> str:
        return "also from a property"


class FinalMeta(type):
    def __new__(mcs, name: str, bases: Any, namespace: Any, **kwargs: Any) -> Any:
        if any(isinstance(base, FinalMeta) for base in bases):
            raise TypeError("final")
        return super().__new__(mcs, name, bases, namespace)


class Final(Exception, metaclass=FinalMeta):
    """Admits no subclass, like classes of compiled libraries."""


class Registered(Exception):
    heard: list[type] = []

    def __init_subclass__(cls, *, needed: int) -> None:
        Registered.heard.append(cls)


class OwnReduce(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a}/{b}")
        self.pair = (a, b)

    def __reduce__(self) -> Any:
        return OwnReduce, self.pair


class LyingReduce(Exception):
    def __reduce__(self) -> Any:
        return str, ("not an exception",)


class FailingReduce(Exception):
    def __reduce__(self) -> Any:
        raise ValueError("no")


class FailingState(Exception):
    def __setstate__(self, state: Any) -> None:
        raise ValueError("no")


class ErrorCode(enum.Enum):
    BAD = 1


class MetaSlots(ValueError, KeyError):
    pass


def unicode_error() -> UnicodeDecodeError:
    return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")


CORPUS: dict[str, Any] = {
    "plain": lambda: ValueError("x"),
    "no args": lambda: ValueError(),
    "many args": lambda: ValueError("x", 1, ErrorCode.BAD),
    "key": lambda: KeyError("missing"),
    "os": lambda: FileNotFoundError(2, "No such file", "/tmp/x", None, "/tmp/y"),
    "os by number": lambda: OSError(13, "denied"),
    "unicode": unicode_error,
    "syntax": lambda: SyntaxError("bad", ("f.py", 3, 1, "x = = 1", 3, 4)),
    "import": lambda: ImportError("no", name="mod", path="/p"),
    "stop": lambda: StopIteration(5),
    "attribute": lambda: AttributeError("no x", name="x", obj=3),
    "coded": lambda: Coded(5, hint="try again"),
    "locked": lambda: Locked("holding"),
    "mute": lambda: Mute("x"),
    "own text": lambda: OwnText("x"),
    "slotted": lambda: Slotted({"a": 1}),
    "frozen": lambda: FrozenLike("cold"),
    "read-only": lambda: ReadOnlyMessage("x"),
    "registered": lambda: Registered("x"),
    "own reduce": lambda: OwnReduce(1, 2),
    "lying reduce": lambda: LyingReduce("x"),
    "failing reduce": lambda: FailingReduce("x"),
    "failing state": lambda: FailingState("x"),
    "two bases": lambda: MetaSlots("x"),
    "kernel's": lambda: ObjectLostError("gone"),
    "kernel's with bases": lambda: SerializationError("no"),
    "task error": lambda: TaskError("by hand"),
    "assertion": lambda: AssertionError(),
    "recursion": lambda: RecursionError("deep"),
    "memory": lambda: MemoryError(),
}


@pytest.mark.parametrize("make", CORPUS.values(), ids=CORPUS.keys())
def test_what_is_raised_is_of_both_types(make: Any) -> None:
    original = make()
    error = raised(original)
    assert isinstance(error, TaskError)
    assert isinstance(error, type(original))
    assert type(error).__name__ == f"TaskError[{type(original).__qualname__}]"
    assert error.args == original.args or isinstance(original, Locked)
    if not isinstance(original, Mute):
        said = f"task() raised {type(original).__qualname__}{': ' * bool(str(original))}{original}"
        assert str(error).startswith(said) or isinstance(original, Locked)
    if not isinstance(original, ReadOnlyMessage):
        assert type(error.cause) is type(original)


@pytest.mark.parametrize("make", CORPUS.values(), ids=CORPUS.keys())
def test_copies_are_whole(make: Any) -> None:
    error = raised(make())
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error)), cloudpickle.loads(cloudpickle.dumps(error))):
        assert type(again) is type(error)
        assert again is not error
        assert str(again) == str(error)
        assert traceback.format_tb(again.__traceback__) == traceback.format_tb(error.__traceback__)


@pytest.mark.parametrize("make", CORPUS.values(), ids=CORPUS.keys())
def test_everything_can_be_printed(make: Any) -> None:
    error = raised(make())
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert f"TaskError[{type(make()).__qualname__}]" in text
    assert "in task(), process 1234 on node ab12" in text
    assert "raise exception" in text


def test_attributes_come_along() -> None:
    error: Any = raised(Coded(5, hint="try again"))
    assert (error.code, error.hint, str(error)) == (
        5,
        "try again",
        "task() raised Coded: failed with 5" if NEWER else str(error),
    )
    assert error.cause.code == 5
    assert raised(Slotted({"a": 1})).detail == {"a": 1}  # type: ignore[attr-defined]
    os_error: Any = raised(FileNotFoundError(2, "No such file", "/tmp/x"))
    assert (os_error.errno, os_error.filename) == (2, "/tmp/x")
    assert raised(unicode_error()).object == b"\xff"  # type: ignore[attr-defined]
    assert raised(StopIteration(5)).value == 5  # type: ignore[attr-defined]
    assert raised(ImportError("no", name="mod")).name == "mod"  # type: ignore[attr-defined]


def test_what_can_not_travel_stays_behind_alone() -> None:
    error: Any = raised(Locked("holding"))
    assert isinstance(error, Locked)
    assert error.number == 7
    assert not hasattr(error, "lock")
    assert error.args[0] == "holding"
    assert "_thread.lock" in error.args[1]
    assert any("left behind, as it can't be pickled: .lock (_thread.lock)" in note for note in error.__notes__)


def test_subclass_hooks_of_the_user_hear_nothing() -> None:
    raised(Registered("x"))
    assert Registered.heard == []


def test_a_message_that_can_not_be_made() -> None:
    assert "its __str__ raised RuntimeError" in str(raised(Mute("x")))


def test_every_rebuilt_exception_is_fresh() -> None:
    data = run(divide, 0)
    first, second = rebuild(data), rebuild(data)
    assert first is not second
    assert first.cause is not second.cause  # type: ignore[attr-defined]
    assert type(first) is type(second)
    with pytest.raises(ZeroDivisionError):
        raise first
    assert len(traceback.extract_tb(first.__traceback__)) > len(traceback.extract_tb(second.__traceback__))


# -- the original itself -------------------------------------------------------------------------------------------


class Fundamental(BaseException):
    """No Exception."""


@pytest.mark.parametrize(
    "original",
    [KeyboardInterrupt("by hand"), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), Fundamental("own")],
    ids=lambda original: type(original).__name__,
)
def test_what_is_no_exception_is_the_cause_of_a_task_error(original: BaseException) -> None:
    error: Any = raised(original)
    assert isinstance(error, TaskError)
    assert type(error).__name__ == f"TaskError[{type(original).__name__}]"
    assert not isinstance(error, type(original))
    assert type(error.cause) is type(original)
    assert error.cause.args == original.args
    assert traceback.extract_tb(error.__traceback__)[-1].line == "raise exception"
    assert "in task(), process 1234" in "".join(traceback.format_exception(error))
    assert type(pickle.loads(pickle.dumps(error)).cause) is type(original)


def test_the_original_itself_where_no_class_can_be_both() -> None:
    original = Final("x")
    error: Any = raised(original)
    assert type(error) is type(original)
    assert error.args == original.args
    assert isinstance(error.__cause__, TaskError)
    assert error.__cause__.cause is error
    assert traceback.extract_tb(error.__traceback__)[-1].line == "raise exception"
    assert "in task(), process 1234" in "".join(traceback.format_exception(error))


def test_system_exit_keeps_its_code() -> None:
    assert raised(SystemExit(3)).cause.code == 3  # type: ignore[attr-defined]


def test_the_original_itself_through_two_tasks() -> None:
    inner = run(lambda: exec("raise error", {"error": Final("x")}), name="inner")
    outer = run(lambda: exec("raise error", {"error": rebuild(inner)}), name="outer")
    error = rebuild(outer)
    assert type(error) is Final
    assert error.__cause__.__notes__[-1].startswith("  in inner() <- outer()")  # type: ignore[union-attr]


def test_a_type_that_is_not_here() -> None:
    program = """
import sys, types
module = types.ModuleType("elsewhere"); sys.modules["elsewhere"] = module
exec("class Gone(ValueError): pass", module.__dict__)
from kernel_engine.failures.task_error import capture
try:
    raise module.Gone("far away")
except ValueError as error:
    sys.stdout.buffer.write(capture(error, task_name="t", process="p", pid=1, node="n"))
"""
    data = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    error = rebuild(data)
    assert isinstance(error, TaskError)
    assert type(error).__name__ == "TaskError[Gone]"
    assert error.cause is None
    assert str(error).startswith("t() raised Gone: far away")
    assert pickle.loads(pickle.dumps(error)).args == error.args


def test_types_of_main_come_by_value() -> None:
    program = """
import sys
class Mine(LookupError):
    def hello(self): return "hello"
from kernel_engine.failures.task_error import capture
try:
    raise Mine("x")
except Mine as error:
    sys.stdout.buffer.write(capture(error, task_name="t", process="p", pid=1, node="n"))
"""
    data = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    error: Any = rebuild(data)
    assert isinstance(error, LookupError)
    assert error.hello() == "hello"


# -- tracebacks ----------------------------------------------------------------------------------------------------


def test_traceback_ends_in_the_users_line() -> None:
    error = rebuild(run(divide, 0))
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, last.name, last.line) == (__file__, "divide", "return 1 / x")
    assert last.lineno == divide.__code__.co_firstlineno + 1
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    assert entry is not None
    assert entry.tb_frame.f_code.co_name == "divide"


def test_lines_of_files_that_are_not_here() -> None:
    source = "def far(x):\n    y = x\n    return y.nothing\n"
    filename = "/no/such/folder/far.py"
    namespace: dict[str, Any] = {}
    exec(compile(source, filename, "exec"), namespace)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    data = run(namespace["far"], 1)
    del linecache.cache[filename]
    error = rebuild(data)
    assert traceback.extract_tb(error.__traceback__)[-1].line == "return y.nothing"
    linecache.checkcache()
    assert "    return y.nothing\n" in "".join(traceback.format_exception(error))
    assert linecache.getline(filename, 1) == "\n"
    assert linecache.getline(filename, 99) == ""


def test_deep_recursion_is_cut_in_the_middle() -> None:
    def dive(n: int) -> int:
        return dive(n + 1)

    error = rebuild(run(dive, 0))
    entries = traceback.extract_tb(error.__traceback__)
    assert isinstance(error, RecursionError)
    assert len(entries) == 101
    assert any(entry.name.endswith("more frames") for entry in entries)


@pytest.mark.parametrize(("first", "line"), [(1, 1), (5, 6), (7, 134), (7, 135), (10, 1000), (1, 100_000), (1000, 3)])
def test_frames_are_in_their_line_and_nothing_is_underlined(first: int, line: int) -> None:
    made = traceback_of([("/nowhere/code.py", line, "function", "some(code)", first)])
    assert made is not None
    frame = made.tb_frame
    assert made.tb_lineno == frame.f_lineno == line and frame.f_code.co_firstlineno == first
    assert {found for _, _, found in frame.f_code.co_lines()} == {line}
    shown = "".join(traceback.format_tb(made))
    assert shown == f'  File "/nowhere/code.py", line {line}, in function\n    some(code)\n'


def test_kernel_frames_are_hidden() -> None:
    from kernel_engine.serialization.value_serializer import ValueSerializer

    def task() -> None:
        ValueSerializer().dumps(threading.Lock())

    error = rebuild(run(task))
    assert [entry.name for entry in traceback.extract_tb(error.__traceback__)] == ["run", "task"]
    try:
        task()
    except SerializationError as local:
        assert traceback.extract_tb(hide_internal_frames(local).__traceback__)[-1].name == "task"


def test_pythons_frames_are_left_out_between_ours_and_the_users_only() -> None:
    import contextlib
    import json

    from kernel_processes.worker import executor

    namespace: dict[str, Any] = {"json": json}
    exec(compile("def call(function): function()", executor.__file__, "exec"), namespace)

    @contextlib.contextmanager
    def nothing() -> Any:
        yield

    @nothing()
    def task() -> None:
        json.loads("nothing")

    def names(function: Any) -> list[str]:
        try:
            function()
        except ValueError as error:
            return [name for _, _, name, _, _ in frames_of(error.__traceback__.tb_next)]  # type: ignore[union-attr]
        raise AssertionError

    whole = names(task)
    assert whole[:2] == ["inner", "task"]
    assert names(lambda: namespace["call"](task)) == ["<lambda>", *whole]
    namespace["task"] = task
    exec(compile("def alone(): task()", executor.__file__, "exec"), namespace)
    assert names(namespace["alone"]) == whole[1:]
    exec(compile("def bare(): json.loads('nothing')", executor.__file__, "exec"), namespace)
    assert names(namespace["bare"]) == whole[2:]


THREE_DEEP = """
import sys
from kernel_engine.failures.task_error import capture, hide_internal_frames, rebuild

def inner(x):
    return 1 / x

def middle(x):
    return get(inner, x)

def outer(x):
    return get(middle, x)

namespace = {"capture": capture, "rebuild": rebuild, "hide": hide_internal_frames}
source = '''
def work(function, x):
    try:
        return function(x)
    except Exception as error:
        return capture(error, task_name=function.__name__, process="p", pid=1234, node="ab12")

def get(function, x):
    raise hide(rebuild(work(function, x)))
'''
import kernel_engine.own_code, kernel_engine.failures.task_error as inside
exec(compile(source, inside.__file__.replace("task_error", "imagined"), "exec"), namespace)
get = namespace["get"]
get(outer, 0)
"""


def test_a_program_that_fails_three_tasks_deep_prints_little(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(THREE_DEEP)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    # Newer Pythons underline the caller's own line.
    lines = [line for line in done.stderr.rstrip().splitlines() if set(line) - set(" ~^")]
    assert len(lines) <= 12, done.stderr
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1] == f'  File "{script}", line 28, in <module>'
    assert lines[-8:] == [
        f'  File "{script}", line 12, in outer',
        "    return get(middle, x)",
        f'  File "{script}", line 9, in middle',
        "    return get(inner, x)",
        f'  File "{script}", line 6, in inner',
        "    return 1 / x",
        "TaskError[ZeroDivisionError]: inner() raised ZeroDivisionError: division by zero",
        "  in inner() <- middle() <- outer(), process 1234 on node ab12",
    ]


# -- chains --------------------------------------------------------------------------------------------------------


def middle() -> None:
    raise rebuild(run(divide, 0, name="inner"))


def translating() -> None:
    try:
        middle()
    except ZeroDivisionError as error:
        raise Coded(1, hint="a") from error


def during() -> None:
    try:
        divide(0)
    except ZeroDivisionError:
        raise KeyError("second")  # noqa: B904


def suppressing() -> None:
    try:
        divide(0)
    except ZeroDivisionError:
        raise KeyError("second") from None


def test_nested_tasks_make_one_record() -> None:
    error = rebuild(run(middle, actor="Counter"))
    assert type(error).__name__ == "TaskError[ZeroDivisionError]"
    record = record_of(error)
    assert record is not None
    assert [name for name, *_ in record["tasks"]] == ["inner", "middle"]
    assert [frame[2] for frame in record["frames"]] == ["run", "middle", "run", "divide"]
    if NEWER:
        assert str(error) == "inner() raised ZeroDivisionError: division by zero"
    assert error.__notes__ == ["  in inner() <- middle(), process 1234 on node ab12"]


def test_frames_survive_a_dropped_traceback() -> None:
    error = rebuild(run(divide, 0))

    def again() -> None:
        raise error.with_traceback(None)

    names = [entry.name for entry in traceback.extract_tb(rebuild(run(again)).__traceback__)]
    assert names == ["run", "again", "run", "divide"]


def test_raise_from_keeps_both() -> None:
    error: Any = rebuild(run(translating))
    assert isinstance(error, Coded)
    inner = error.__cause__
    assert isinstance(inner, ZeroDivisionError)
    assert isinstance(inner, TaskError)
    assert traceback.extract_tb(inner.__traceback__)[-1].line == "return 1 / x"
    assert inner.__notes__ == ["  in inner(), process 1234 on node ab12"]
    text = "".join(traceback.format_exception(error))
    assert "direct cause" in text
    assert isinstance(pickle.loads(pickle.dumps(error)).__cause__, ZeroDivisionError)


def test_context_and_its_suppression() -> None:
    error = rebuild(run(during))
    assert isinstance(error.__context__, ZeroDivisionError)
    assert error.__cause__ is None
    assert "During handling" in "".join(traceback.format_exception(error))
    error = rebuild(run(suppressing))
    assert error.__suppress_context__
    assert "ZeroDivisionError" not in "".join(traceback.format_exception(error))


def test_causes_that_can_not_travel_are_shown() -> None:
    def task() -> None:
        raise ValueError("x") from FailingState("why")

    text = "".join(traceback.format_exception(rebuild(run(task))))
    assert "FailingState: why" in text


def test_cyclic_and_endless_chains() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert isinstance(raised(first), ValueError)
    last: BaseException = ValueError("0")
    for number in range(1, 200):
        following = ValueError(str(number))
        following.__cause__ = last
        last = following
    assert str(raised(last)).startswith("task() raised ValueError: 199")


# -- groups --------------------------------------------------------------------------------------------------------

if NEWER:

    def make_group() -> BaseException:
        members: list[Exception] = []
        for make in (lambda: ValueError(1), lambda: Locked("l")):
            try:
                raise make()
            except Exception as error:
                members.append(error)
        return ExceptionGroup("many", [*members, ExceptionGroup("inner", [KeyError("k")])])  # noqa: F821

    def test_groups_arrive_with_their_members() -> None:
        error: Any = raised(make_group())
        assert isinstance(error, ExceptionGroup)  # noqa: F821
        assert isinstance(error, TaskError)
        assert error.message == "many"
        assert [type(member) for member in error.exceptions[:2]] == [ValueError, Locked]
        assert type(error.exceptions[2].exceptions[0]) is KeyError
        assert traceback.extract_tb(error.exceptions[0].__traceback__)[-1].line == "raise make()"
        matching, rest = error.split(ValueError)
        assert len(matching.exceptions) == 1
        assert len(rest.exceptions) == 2
        assert "KeyError: 'k'" in "".join(traceback.format_exception(error))
        assert len(pickle.loads(pickle.dumps(error)).exceptions) == 3

    def test_groups_of_the_users_own_kind() -> None:
        class Mine(ExceptionGroup):  # noqa: F821
            pass

        assert isinstance(raised(Mine("m", [ValueError(1)])), Mine)


# -- cost, and what must never happen ------------------------------------------------------------------------------


def test_captured_bytes_are_plain_data() -> None:
    record = pickle.loads(run(divide, 0))
    assert record["type"] == "ZeroDivisionError"
    assert record["tasks"] == [("divide", "p1", 1234, "ab12", None)]


def test_capture_never_raises() -> None:
    class Hostile(Exception):
        __module__ = None  # type: ignore[assignment]

        @property
        def __dict__(self) -> Any:
            raise RuntimeError("no")

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        __hash__ = None  # type: ignore[assignment]

    error = raised(Hostile("x"))
    assert isinstance(error, TaskError)
    assert type(error).__name__.endswith("Hostile]")


def test_actor_is_named() -> None:
    error = rebuild(run(divide, 0, name="Counter.add", actor="Counter"))
    assert error.__notes__ == ["  in Counter.add(), process 1234 of actor Counter on node ab12"]


def test_long_messages_are_cut() -> None:
    text = str(raised(OwnText("y" * 1_000_000)))
    assert len(text) < 101_000


def test_notes_of_the_user_come_along() -> None:
    if NEWER:
        error = ValueError("x")
        error.add_note("see page 4")
        assert raised(error).__notes__[0] == "see page 4"


def test_errors_are_ours_in_kind() -> None:
    with pytest.raises(KernelError):
        raise raised(ValueError("x"))


def test_rebuilding_is_quick() -> None:
    data = run(middle)
    assert min(timeit.repeat(lambda: rebuild(data), number=50, repeat=5)) / 50 < 0.001


class Placed(Exception):
    """It has words of its own for what an error of a task tells."""

    def __init__(self) -> None:
        super().__init__("placed")
        self.node = "a node of mine"
        self.pid = -1


def test_what_is_known_of_the_task() -> None:
    error = raised(ValueError("far away"))
    assert isinstance(error, TaskError)
    assert (error.function_name, error.pid, error.node) == ("task", 1234, "ab12")
    lines = error.remote_traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "    raise exception" in lines and lines[-1] == "ValueError: far away"
    assert pickle.loads(pickle.dumps(error)).remote_traceback == error.remote_traceback


def test_what_the_user_calls_so_is_the_users() -> None:
    error: Any = raised(Placed())
    assert (error.node, error.pid, error.function_name) == ("a node of mine", -1, "task")


def test_the_text_has_the_chain() -> None:
    def task() -> None:
        try:
            divide(0)
        except ZeroDivisionError as error:
            raise KeyError("k") from error

    error = rebuild(run(task))
    assert isinstance(error, TaskError)
    before, _, after = error.remote_traceback.partition("The above exception was the direct cause of the following")
    assert "    return 1 / x" in before and before.rstrip().endswith("ZeroDivisionError: division by zero")
    assert after.endswith("KeyError: 'k'")


def test_a_constructors_error_has_the_actors_id() -> None:
    try:
        divide(0)
    except ZeroDivisionError as error:
        data = capture(error, task_name="A.__init__", actor="A", actor_id="ac1d", ends_actor=True, **WHERE)
    rebuilt: Any = rebuild(data)
    assert isinstance(rebuilt, ActorDiedError) and rebuilt.actor_id == "ac1d"
    assert pickle.loads(pickle.dumps(rebuilt)).actor_id == "ac1d"
