"""The path to what can't be pickled is exact, short, and said with a remedy."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextvars
import ctypes
import dataclasses
import functools
import itertools
import mmap
import pickle
import queue
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import types
import weakref
from typing import Any

import pytest

import kernel
from kernel_engine.serialization import unpicklable
from kernel_engine.serialization.unpicklable import explain, explain_call, find_culprits
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.errors import SerializationError

LOCK = threading.Lock()


@pytest.fixture(autouse=True)
def plenty_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no search end before it has found something, however busy the machine is."""
    monkeypatch.setattr(unpicklable, "_SECONDS_LIMIT", 600.0)


class Box:
    """Holds anything."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("lock", "other")

    def __init__(self, lock: Any) -> None:
        self.lock = lock


@dataclasses.dataclass
class Config:
    name: str
    lock: Any


Pair = collections.namedtuple("Pair", "left right")


class ListOfMine(list):
    pass


class WithState:
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def __getstate__(self) -> dict[str, Any]:
        return {"kept": 1, "guard": [self._lock]}


class WithReduce:
    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __reduce__(self) -> Any:
        return WithReduce, (self.lock,)


class WithBuffer:
    def __init__(self) -> None:
        self.lock = LOCK

    def __reduce__(self) -> Any:
        return WithBuffer, (pickle.PickleBuffer(b"x"), self.lock)


class Refusing:
    def __reduce__(self) -> Any:
        raise ValueError("never leaves")


class Keyed:
    """Hashable, with a lock inside."""

    def __init__(self) -> None:
        self.lock = LOCK


def closing_over(lock: Any) -> Any:
    def inner() -> Any:
        return lock

    return inner


def by_global() -> Any:
    namespace = {"guard": LOCK, "unused": LOCK, "__name__": "__main__"}
    exec("def uses():\n    return guard", namespace)
    return namespace["uses"]


def with_default() -> Any:
    def inner(x: Any = LOCK, *, y: Any = 1) -> Any:
        return x, y

    return inner


def with_keyword_default() -> Any:
    def inner(*, y: Any = LOCK) -> Any:
        return y

    return inner


def with_attribute() -> Any:
    def inner() -> None: ...

    inner.cache = {"a": LOCK}
    return inner


def local_class() -> Any:
    class Local:
        lock = LOCK

    return Local


def local_class_method() -> Any:
    lock = LOCK

    class Local:
        def method(self) -> Any:
            return lock

    return Local


def cyclic() -> Any:
    box: Any = Box(children=[])
    box.children += [box, [box, {"x": box, "lock": LOCK}]]
    return box


def generator() -> Any:
    yield 1


def logger_config() -> Any:
    handler = Box(level=1, lock=LOCK)
    return {"rate": 0.1, "logger": Box(name="train", handlers=[handler])}


def object_array() -> Any:
    import numpy

    array = numpy.empty(3, dtype=object)
    array[1] = LOCK
    return array


CORPUS = {
    "itself": (lambda: LOCK, "value"),
    "issue example": (logger_config, 'value["logger"].handlers[0].lock'),
    "list": (lambda: [1, [2, LOCK]], "value[1][1]"),
    "tuple": (lambda: (1, LOCK), "value[1]"),
    "dict": (lambda: {"a": {3: LOCK}}, 'value["a"][3]'),
    "dict key": (lambda: {Keyed(): 1}, "list(value)[0].lock"),
    "dict odd key": (lambda: {'say "hi"': LOCK}, r'value["say \"hi\""]'),
    "set": (lambda: {LOCK}, "list(value)[0]"),
    "frozenset": (lambda: frozenset({LOCK}), "list(value)[0]"),
    "attribute": (lambda: Box(a=Box(b=LOCK)), "value.a.b"),
    "slots": (lambda: Slotted(LOCK), "value.lock"),
    "dataclass": (lambda: Config("x", LOCK), "value.lock"),
    "namedtuple": (lambda: Pair(1, LOCK), "value.right"),
    "list subclass": (lambda: ListOfMine([1, LOCK]), "value[1]"),
    "deque": (lambda: collections.deque([1, LOCK]), "value[1]"),
    "ordered dict": (lambda: collections.OrderedDict(a=LOCK), 'value["a"]'),
    "default dict": (lambda: collections.defaultdict(list, a=[LOCK]), 'value["a"][0]'),
    "getstate": (lambda: WithState(LOCK), 'value.__getstate__()["guard"][0]'),
    "reduce": (lambda: WithReduce(LOCK), "value.lock"),
    "beside a buffer": (WithBuffer, "value.lock"),
    "closure": (lambda: closing_over(LOCK), 'value.__closure__["lock"]'),
    "global": (by_global, 'value.__globals__["guard"]'),
    "default": (with_default, "value.__defaults__[0]"),
    "keyword default": (with_keyword_default, 'value.__kwdefaults__["y"]'),
    "function attribute": (with_attribute, 'value.cache["a"]'),
    "class attribute": (local_class, "value.lock"),
    "class of instance": (lambda: local_class()(), "type(value).lock"),
    "method's closure": (local_class_method, 'value.method.__closure__["lock"]'),
    "partial": (lambda: functools.partial(print, 1, sep=LOCK), 'value.keywords["sep"]'),
    "partial args": (lambda: functools.partial(print, LOCK), "value.args[0]"),
    "bound method": (lambda: Box(f=Config("a", LOCK).__eq__), "value.f.__self__.lock"),
    "cycle": (cyclic, 'value.children[1][1]["lock"]'),
    "shortest": (lambda: [[[[LOCK]]], Box(near=LOCK)], "value[1].near"),
    "simple namespace": (lambda: types.SimpleNamespace(a=[LOCK]), "value.a[0]"),
    "exception": (lambda: ValueError("x", LOCK), "value.args[1]"),
    "mapping proxy": (lambda: Box(view=types.MappingProxyType({"a": LOCK})), None),
    "object array": (object_array, None),
    "generator": (lambda: Box(items=generator()), "value.items"),
    "thread": (lambda: Box(worker=threading.Thread()), "value.worker"),
    "event": (lambda: {"ready": threading.Event()}, 'value["ready"]'),
    "queue": (lambda: [queue.Queue()], "value[0]"),
    "executor": (lambda: Box(pool=concurrent.futures.ThreadPoolExecutor()), "value.pool"),
    "weakref": (lambda: Box(parent=weakref.ref(Box)), "value.parent"),
    "database": (lambda: Box(db=sqlite3.connect(":memory:")), "value.db"),
    "frame": (lambda: [sys._getframe()], "value[0]"),
    "context variable": (lambda: [contextvars.ContextVar("user")], "value[0]"),
    "match": (lambda: [re.match("a", "a")], "value[0]"),
    "pointer": (lambda: [ctypes.pointer(ctypes.c_int(1))], "value[0]"),
    "refusing": (lambda: {"a": Refusing()}, 'value["a"]'),
}


@pytest.mark.parametrize("make, path", CORPUS.values(), ids=CORPUS.keys())
def test_path_is_exact(make: Any, path: str | None) -> None:
    value = make()
    with pytest.raises(SerializationError) as raised:
        ValueSerializer().dumps(value)
    text = str(raised.value)
    assert len(text.splitlines()) <= 6
    assert text.startswith("can't pickle the value: ")
    culprit = find_culprits(value)[0]
    if path is not None:
        assert culprit.path == path
    assert ("it is a" if culprit.path == "value" else f"{culprit.path} is a") in text


def test_asking_before_sending() -> None:
    parts = kernel.unpicklable_parts({"logger": [threading.Lock()]}, "config")
    assert [str(part) for part in parts] == ['config["logger"][0] is a _thread.lock, which can\'t leave its process.']
    assert type(parts[0].parent) is list and isinstance(parts[0].error, TypeError)
    assert kernel.unpicklable_parts([1, "a", len]) == []


@pytest.mark.parametrize("name", [n for n, (_, p) in CORPUS.items() if p and "__closure__" not in p and n != "cycle"])
def test_path_is_the_python_that_gets_there(name: str) -> None:
    value = CORPUS[name][0]()
    culprit = find_culprits(value)[0]
    reached = eval(culprit.path, {"value": value})
    assert reached is culprit.value or type(reached) is type(culprit.value)


def test_files_sockets_loops_and_processes_are_named_as_such(tmp_path: Any) -> None:
    file = open(tmp_path / "x", "w+b")  # noqa: SIM115
    file.write(b"xx")
    file.flush()
    loop = asyncio.new_event_loop()
    process = subprocess.Popen([sys.executable, "-c", ""])
    connection = socket.socket()
    area = mmap.mmap(file.fileno(), 2)
    try:
        for value, remedy in [
            (file, "open the file inside the task"),
            (loop, "get_running_loop"),
            (process, "process id"),
            (connection, "connect inside the task"),
            (area, "inside the task"),
        ]:
            error = explain(Box(x=value), "value", TypeError("no"))
            assert str(error).startswith("can't pickle the value: value.x is a")
            assert remedy in str(error)
    finally:
        area.close()
        connection.close()
        process.wait()
        loop.close()
        file.close()


def test_whole_message_of_an_argument() -> None:
    config = logger_config()
    error = explain_call("train", (1, config), {}, TypeError("x"), parameters=("epochs", "config"))
    assert str(error) == (
        "can't pickle the argument 'config' of train(): config[\"logger\"].handlers[0].lock is a _thread.lock, "
        "which can't leave its process.\n"
        "Create the lock where it is used, or leave it out in __getstate__; one lock for all processes is an actor."
    )


def test_arguments_without_names_and_keywords() -> None:
    assert "positional argument 1 of f(): args[1][0] is" in str(explain_call("f", (1, [LOCK]), {}, TypeError()))
    assert "argument 'key' of f(): key.a is" in str(explain_call("f", (1,), {"key": Box(a=LOCK)}, TypeError()))


def test_return_value_and_several_culprits() -> None:
    error = explain(Box(a=LOCK, b=[threading.Lock()]), "return value of f()", TypeError("x"), name="result")
    assert "return value of f(): result.a is a _thread.lock" in str(error)
    assert "The same goes for result.b[0]." in str(error)


def test_own_reduce_that_raises_is_told_apart() -> None:
    error = explain([Refusing()], "value", ValueError("never leaves"))
    assert "Refusing, and its __reduce__() raised ValueError: never leaves" in str(error)


def test_too_deep_nesting_is_an_error_not_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SerializationError, match="nested too deeply"):
        ValueSerializer().dumps(deep)


def test_search_is_bounded_in_objects_and_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    parts_of = unpicklable.parts_of
    monkeypatch.setattr(unpicklable, "parts_of", lambda part, *more: looked_at.append(part) or parts_of(part, *more))
    wide = [Box(i=i, many=list(range(50))) for i in range(20_000)]
    explain([wide, wide], "value", TypeError("x"))
    assert 0 < len(looked_at) <= unpicklable._OBJECT_LIMIT
    looked_at.clear()
    seconds = itertools.count(0.0, unpicklable._SECONDS_LIMIT / 10)  # each look at the clock takes so long
    monkeypatch.setattr(unpicklable, "time", types.SimpleNamespace(monotonic=lambda: next(seconds)))
    explain([wide, wide], "value", TypeError("x"))
    assert 0 < len(looked_at) <= 10


def test_references_met_while_explaining_are_not_counted() -> None:
    from kernel.runtime.in_progress import Capture, note_reference

    class Reference:
        def __reduce__(self) -> Any:
            assert note_reference(self)
            return str, ()

    with Capture() as outer:
        explain([Reference(), LOCK], "value", TypeError("x"))
    assert outer == []


def test_function_that_uses_a_lock() -> None:
    with pytest.raises(SerializationError) as raised:
        ValueSerializer().dumps_function(closing_over(LOCK))
    assert str(raised.value).startswith('can\'t pickle the function inner: inner.__closure__["lock"] is a _thread.lock')
