"""The conformance suite for builders of environments.

from kernel_conformance.environment import EnvironmentConformance

class TestMine(EnvironmentConformance):
    make_builder = staticmethod(MyEnvironment)
    values = ("a value", {"another": 1})
    wrong_values = (5,)
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kernel_spec.environments import PACKAGE, BuildPlace, EnvironmentBuilder, WorkerStart
from kernel_spec.errors import RuntimeEnvError


class EnvironmentConformance:
    """Every builder's tests."""

    make_builder: Callable[[], EnvironmentBuilder]

    values: Sequence[Any] | Mapping[str, Sequence[Any]] = ()
    """Values that can be given, by field where there are several builders. One of them at least must mean something."""
    wrong_values: Sequence[Any] | Mapping[str, Sequence[Any]] = ()
    """Values of a wrong type or form, likewise."""
    builds = True
    """What the values mean can be built where these tests run."""

    def builder(self) -> EnvironmentBuilder:
        """Return a fresh one."""
        return type(self).make_builder()

    def test_is_a_builder_of_a_field(self) -> None:
        builder = self.builder()
        assert isinstance(builder, EnvironmentBuilder), f"{type(builder).__name__} lacks something of the contract"
        assert isinstance(builder.field, str) and builder.field.isidentifier(), f"{builder.field!r} can't name a field"
        assert builder.field not in ("excludes", "inherit"), f"the field {builder.field!r} is the kernel's own"
        assert builder.build_seconds >= 0 and builder.cache_bytes >= 0

    def test_there_are_values_to_try(self) -> None:
        field = self.builder().field
        assert _of(self.values, field), f"say in `values` what may be given for the field {field!r}"
        with self.prepared() as prepared:
            assert any(value for _, value, _ in prepared), "none of the values means anything"

    def test_a_wrong_value_is_refused_with_the_name_of_the_field(self) -> None:
        builder = self.builder()
        wrong = _of(self.wrong_values, builder.field)
        assert wrong, f"say in `wrong_values` what can't be given for the field {builder.field!r}"
        for value in wrong:
            try:
                builder.check(value)
            except RuntimeEnvError as error:
                named = f"runtime_env[{builder.field!r}]"
                assert named in str(error), f"the error for {value!r} must name {named}, and says: {error}"
            else:
                raise AssertionError(f"{value!r} should have been refused by check()")

    def test_what_is_prepared_is_plain(self) -> None:
        with self.prepared() as prepared:
            for given, value, _ in prepared:
                assert json.loads(json.dumps(value)) == value, (
                    f"{given!r} was prepared as {value!r}, which JSON changes"
                )

    def test_the_same_means_the_same_and_is_not_changed(self) -> None:
        with self.prepared() as first, self.prepared() as second:
            assert [value for _, value, _ in first] == [value for _, value, _ in second]
            for given, _, program in first:
                changed = _copied(given)
                self.builder().prepare(changed, program)
                assert changed == given, "prepare() has changed what it was given"

    def test_what_was_prepared_can_be_given_again(self) -> None:
        with self.prepared() as prepared:
            for _, value, program in prepared:
                if value:
                    self.builder().check(value)
                    again = self.builder().prepare(value, program)
                    assert again == value, f"{value!r}, given again, was prepared as {again!r}"

    def test_packages_are_those_that_were_packed(self) -> None:
        with self.prepared() as prepared:
            for _, value, program in prepared:
                if value:
                    names = list(self.builder().packages(value))
                    assert set(names) <= program.names, f"packages() says {names}, packed were {program.names}"

    def test_a_builder_can_be_pickled(self) -> None:
        builder = pickle.loads(pickle.dumps(self.builder()))
        assert (builder.field, builder.build_seconds) == (self.builder().field, self.builder().build_seconds)

    def test_what_is_built_says_how_a_worker_starts(self) -> None:
        with self.prepared() as prepared, tempfile.TemporaryDirectory() as directory:
            for number, (_, value, program) in enumerate(prepared):
                if not value or not self.builds:
                    continue
                builder = self.builder()
                place = os.path.join(directory, str(number)) if builder.build_seconds else ""
                if place:
                    os.mkdir(place, 0o700)
                start = builder.build(value, BuildPlace(place, program.directory))
                assert isinstance(start, WorkerStart), f"build() returned {start!r}, no WorkerStart"
                self._check_start(start)

    @staticmethod
    def _check_start(start: WorkerStart) -> None:
        for name, text in start.variables.items():
            assert isinstance(name, str) and isinstance(text, str), f"the variable {name!r} is {text!r}"
        assert isinstance(start.paths, tuple) and isinstance(start.modules, tuple)
        for path in (*start.paths, *filter(None, (start.directory, start.python))):
            assert os.path.isabs(path) and os.path.exists(path), f"{path!r} is no absolute path of something there"
        if start.python:
            assert os.access(start.python, os.X_OK), f"{start.python} can't be run"
        assert not start.modules or start.python, "modules say when an interpreter is needed, and there is none"
        assert pickle.loads(pickle.dumps(start)) == start

    @contextmanager
    def prepared(self) -> Iterator[list[tuple[Any, Any, PackedHere]]]:
        """Yield each value that can be given, as what it was prepared, and the program that it was prepared for."""
        with tempfile.TemporaryDirectory() as directory:
            builder, found = self.builder(), []
            for number, given in enumerate(_of(self.values, builder.field)):
                program = PackedHere(os.path.join(directory, str(number)))
                builder.check(given)
                found.append((given, builder.prepare(_copied(given), program), program))
            yield found


def _of(values: Sequence[Any] | Mapping[str, Sequence[Any]], field: str) -> Sequence[Any]:
    return values.get(field, ()) if isinstance(values, Mapping) else values


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except TypeError:
        return value  # it has a module in it, say


class PackedHere:
    """A program that keeps what is packed in folders below `directory`, named by their order."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._paths: dict[str, str] = {}
        self.names: set[str] = set()

    def pack(self, path: str, below: str = "") -> str:
        """Copy what is packed, and return its name."""
        if path in self.names:
            return path
        name = self._paths.setdefault(path, f"{PACKAGE}{len(self._paths)}")
        target = os.path.join(self.directory(name), below if os.path.isdir(path) else os.path.basename(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(path):
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(path, target)
        self.names.add(name)
        return name

    def directory(self, name: str) -> str:
        """Return where a package is."""
        return os.path.join(self._directory, name.removeprefix(PACKAGE))
