"""A reference that is used as a value, and an argument of init that can't be: the message says what to do."""

from __future__ import annotations

import collections.abc
import inspect
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernel
from kernel.runtime.objects import Entry
from kernel.runtime.task_error import capture, rebuild
from kernel_spec.errors import OptionError, ReferenceUseError
from kernel_spec.ids import ObjectId


@pytest.fixture
def ref() -> kernel.ObjectRef:
    """A reference to nothing."""
    return kernel.ObjectRef(Entry(ObjectId(bytes(20)), 1))


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
        ("labels", {"a b": "c"}, "labels: 'a b' is no name of a label: it has up to 63 letters"),
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
