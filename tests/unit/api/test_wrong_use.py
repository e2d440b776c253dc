"""A reference that is used as a value, and an argument of init that can't be: the message says what to do."""

from __future__ import annotations

import collections.abc
import inspect
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.api import display_hooks
from kernel.runtime.object_entry import ObjectEntry
from kernel_engine.failures.task_error import capture, rebuild
from kernel_spec.errors import OptionError, ReferenceUseError
from kernel_spec.ids import ObjectId


@pytest.fixture
def ref() -> kernel.ObjectRef:
    """A reference to nothing."""
    return kernel.ObjectRef(ObjectEntry(ObjectId(bytes(20)), 1))


REMEDY = (
    r": a reference stands for a value that may not be there yet. kernel.get\(ref\) returns the value; a task that is "
    r"given ref as an argument gets the value, but inside a list or dict it stays a reference: kernel.get\(list\)$"
)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ref: ref + 1, r"ObjectRef \+ int can't be computed"),
        (lambda ref: 1 + ref, r"int \+ ObjectRef can't be computed"),
        (lambda ref: "a" + ref, r"str \+ ObjectRef can't be computed"),
        (lambda ref: sum([ref, ref]), r"int \+ ObjectRef can't be computed"),
        (lambda ref: np.ones(2) * ref, r"float\w* \* ObjectRef can't be computed"),
        (lambda ref: ref**2, r"ObjectRef \*\* int can't be computed"),
        (lambda ref: -ref, "-ObjectRef can't be computed"),
        (lambda ref: abs(ref), r"abs\(ObjectRef\) can't be computed"),
        (lambda ref: float(ref), r"float\(ObjectRef\) can't be computed"),
        (lambda ref: ref < 1, "ObjectRef < int can't be computed"),
        (lambda ref: max([ref, ref]), "ObjectRef > ObjectRef can't be computed"),
        (lambda ref: [one for one in ref], "an ObjectRef can't be iterated"),
        (lambda ref: 1 in ref, "an ObjectRef can't be iterated"),
        (lambda ref: ref["key"], "an ObjectRef has no items"),
        (lambda ref: ref.get(), "an ObjectRef has no attribute 'get'"),
        (lambda ref: ref.shape, "an ObjectRef has no attribute 'shape'"),
    ],
)
def test_a_reference_is_no_value(ref: kernel.ObjectRef, use: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ReferenceUseError, match=f"^{said}{REMEDY}") as caught:
        use(ref)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, AttributeError)


def test_a_reference_still_is_what_it_was(ref: kernel.ObjectRef) -> None:
    assert not isinstance(ref, (collections.abc.Iterable, collections.abc.Sized, collections.abc.Callable))  # type: ignore[arg-type]
    assert not hasattr(ref, "get") and not hasattr(ref, "__len__") and ref
    assert ref in [ref] and {ref: 1}[ref] == 1 and ref == ref and ref != 1
    assert np.array([ref, ref]).shape == (2,) and np.asarray(ref).dtype == object


def test_writing_into_an_array_that_was_sent_says_what_to_do() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    try:
        array[0] = 1
    except ValueError as error:
        sent = capture(error, task_name="f", process="p", pid=1, node="n")
    assert any("use array.copy()" in note for note in rebuild(sent).__dict__["__notes__"])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_cpus", "four", "init(num_cpus='four'): num_cpus must be a number, not a str"),
        ("num_gpus", [1], "init(num_gpus=[1]): num_gpus must be a number, not a list"),
        ("num_cpus", -1, "num_cpus: a resource quantity must be a finite number, zero or more, not -1"),
        ("object_store_memory", "1GB", "object_store_memory must be a number of bytes, not a str"),
        ("resources", ["disk"], "init(resources=['disk']): resources must be a dict, not a list"),
        ("resources", {"disk": "two"}, "resources['disk'] must be a number, not the str 'two'"),
        ("labels", {"a b": "c"}, "labels: 'a b' is not a name of a label: it has up to 63 letters"),
        ("labels", {"a": 1}, "labels: label 'a' can't have the value 1: a value has up to 63 letters"),
        ("labels", "zone", "init(labels='zone'): labels must be a dict, not a str"),
        ("namespace", 3, "init(namespace=3): namespace must be a string, not a int"),
        ("address", 7, "init(address=7): address must be a string, not a int"),
        ("temp_dir", 3, "init(temp_dir=3): temp_dir must be a path, not a int"),
        ("runtime_env", "x", "init(runtime_env='x'): runtime_env must be a dict, not a str"),
        ("logging_level", [], "logging_level must be a level such as 'info' or logging.INFO, not a list"),
    ],
)
def test_init_names_the_argument(name: str, value: Any, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        kernel.init(**{name: value})
    assert said in str(caught.value)
    assert not kernel.is_initialized()


def test_init_names_the_nearest_argument() -> None:
    with pytest.raises(OptionError, match=r"^init\(\) has no argument 'num_cpu'; did you mean 'num_cpus'\?$"):
        kernel.init(num_cpu=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"init\(\) has no argument 'qqqq'; it has address, num_cpus"):
        kernel.init(qqqq=2)  # type: ignore[call-arg]
    assert "num_cpus" in inspect.signature(kernel.init).parameters


def test_numbers_and_paths_of_other_kinds_are_fine(tmp_path: Path) -> None:
    level = logging.INFO
    with kernel.init(num_cpus=np.float64(2), memory=np.int64(1 << 30), local_mode=True, logging_level=level):  # type: ignore[arg-type]
        assert kernel.cluster_resources()["CPU"] == 2.0
    assert isinstance(tmp_path, os.PathLike)


@pytest.mark.parametrize("name", ["local_mode", "log_to_driver", "show_failures"])
def test_a_flag_of_init_is_no_string(name: str) -> None:
    with pytest.raises(OptionError, match=rf"^init\({name}='no'\): {name} must be True or False, not a str$"):
        kernel.init(**{name: "no"})  # type: ignore[arg-type]
    assert not kernel.is_initialized()


def test_an_unknown_level_of_logging_is_refused() -> None:
    with pytest.raises(OptionError, match=r"debug, info, .*, not 'warn'; did you mean 'warning'\?$"):
        kernel.init(logging_level="warn")
    assert not kernel.is_initialized()


@pytest.fixture(scope="module")
def local() -> Iterator[None]:
    with kernel.init(num_cpus=1, local_mode=True):
        yield


@kernel.remote
def one() -> int:
    return 1


@kernel.remote
def some() -> Iterator[int]:
    yield 1


@kernel.remote
class Actor:
    def method(self) -> None:
        pass


def group() -> Any:
    return kernel.placement_group([{"CPU": 1}])


@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ref: kernel.get(ref, timeout="5"), "timeout must be zero or more seconds, not '5'$"),
        (lambda ref: kernel.get(ref, timeout=float("nan")), "timeout must be zero or more seconds, not nan$"),
        (lambda ref: kernel.wait([ref], timeout="5"), "timeout must be zero or more seconds, not '5'$"),
        (lambda ref: some.remote().next(timeout="5"), "timeout must be zero or more seconds, not '5'$"),
        (lambda ref: group().wait("5"), "timeout_seconds must be zero or more seconds, not '5'$"),
        (lambda ref: kernel.wait([ref], num_returns="1"), "num_returns must be between 1 and the 1 .* not '1'$"),
        (lambda ref: kernel.wait([]), "is empty: there is nothing to wait for$"),
        (lambda ref: kernel.get(some.remote()), "not a ObjectRefGenerator; iterate over it, and get each"),
        (lambda ref: kernel.get([some.remote()]), "with a ObjectRefGenerator in it; iterate over it, and get each"),
        (lambda ref: kernel.get(one), "; call it, with .remote"),
        (lambda ref: kernel.get(Actor.remote()), "; call one of its methods, with .remote"),
        (lambda ref: kernel.get(Actor.remote().method), "; call it, with .remote"),
        (lambda ref: kernel.get({"a": ref}), r"; get list\(it.values\(\)\)$"),
        (lambda ref: kernel.get({ref}), r"; get list\(it\)$"),
        (lambda ref: kernel.cancel([ref]), "takes an ObjectRef, not a list; cancel one after the other$"),
        (lambda ref: kernel.placement_group([{"CPU": "x"}]), "a quantity of a resource must be a number$"),
        (lambda ref: kernel.get_placement_group(3), "found by its name, a string that is not empty, not 3$"),
    ],
)
def test_wrong_arguments_are_named(use: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(kernel.exceptions.UsageError, match=said):
        use(one.remote())


def shown_of(error: BaseException) -> str:
    """Return what is shown of an error that nobody caught, without the lines of code."""
    shown: list[str] = []
    hook = display_hooks._ProgramHook(lambda _, error, tb: shown.extend(traceback.format_exception_only(error)))
    hook(type(error), error, error.__traceback__)
    return "".join(shown)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes of exceptions came with Python 3.11")
@pytest.mark.usefixtures("local")
@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ref: len(ref), "kernel.get(ref) returns the value"),
        (lambda ref: ref(), "kernel.get(ref) returns the value"),
        (lambda ref: f"{ref:.2f}", "kernel.get(ref) returns the value"),
        (lambda ref: [1, 2][ref], "kernel.get(ref) returns the value"),
        (lambda ref: ref.unheard_of, "kernel.get(ref) returns the value"),
        (lambda ref: json.dumps({"a": ref}), "kernel.get(ref) returns the value"),
        (lambda ref: some.remote()[0], "for ref in stream: value = kernel.get(ref)"),
        (lambda ref: kernel.get(kernel.put(np.zeros(9)))[:].fill(1), "use array.copy()"),
    ],
)
def test_what_python_refuses_is_shown_with_what_to_do(use: Callable[[Any], Any], said: str) -> None:
    ref = one.remote()
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        use(ref)
    assert said in shown_of(caught.value)
    assert not hasattr(caught.value, "__notes__"), "the error itself is left as it was"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes of exceptions came with Python 3.11")
@pytest.mark.usefixtures("local")
def test_a_hint_follows_the_notes_that_there_are() -> None:
    error = TypeError("object of type 'ObjectRef' has no len()")
    error.__notes__ = ["mine"]
    assert shown_of(error).index("mine") < shown_of(error).index("kernel.get(ref)")
    assert error.__notes__ == ["mine"]
    assert "kernel.get" not in shown_of(TypeError("object of type 'ObjectReference' has no len()"))
