"""Trainables with more given to them: parameters, data sets, resources."""

from __future__ import annotations

from typing import Any

import pytest

import kernel
from kernel.exceptions import TaskError
from kernel_runs import Trainable, with_parameters, with_resources, wrap_function
from kernel_runs.pickling import PicklingError, put, why_not
from kernel_runs.trainable.wrappers import (
    get_pinned_object,
    pin_in_object_store,
    validate_save_restore,
    with_datasets,
)

pytestmark = pytest.mark.usefixtures("session")


class Sums(Trainable):
    def setup(self, config: dict[str, Any], numbers: Any = (), factor: int = 1) -> None:
        self.total = factor * (sum(numbers) + sum(config.get("datasets", {}).get("train", ())))
        self.steps = 0

    def step(self) -> dict[str, Any]:
        self.steps += 1
        return {"total": self.total, "steps": self.steps}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        return {"steps": self.steps}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.steps = checkpoint["steps"]


def sums(config: dict[str, Any], numbers: Any = ()) -> dict[str, Any]:
    return {"total": sum(numbers) + sum(config.get("datasets", {}).get("train", ()))}


def total_of(trainable: Any, config: dict[str, Any] | None = None) -> Any:
    kind = trainable if isinstance(trainable, type) else wrap_function(trainable)
    return kind(config or {}).train()["total"]


@pytest.mark.parametrize("trainable", [Sums, sums, wrap_function(sums)])
def test_parameters_are_read_from_the_store(trainable: Any) -> None:
    given = with_parameters(trainable, numbers=[1, 2, 3])
    assert total_of(given) == 6
    for name in ("__name__", "__qualname__"):
        assert getattr(given, name) == getattr(trainable, name)
    assert total_of(with_parameters(trainable, numbers=kernel.put([4, 5]))) == 9


def test_parameters_that_there_are_not_and_what_can_not_have_any_are_named() -> None:
    with pytest.raises(TypeError, match=r"^sums\(\) has no parameter 'letters' to be given"):
        with_parameters(sums, letters=1)
    with pytest.raises(TypeError, match=r"^with_parameters\(\) takes a function or a Trainable class, not 'sums'"):
        with_parameters("sums", numbers=[1])


class Closed:
    """Can't be pickled, as something in it can't be."""

    def __init__(self) -> None:
        self.lock = (each for each in ())


def test_the_variable_to_blame_is_named_by_its_path() -> None:
    with pytest.raises(
        PicklingError, match=r"^parameter 'numbers' of with_parameters\(\) can't be .*: numbers\[1\] is"
    ):
        with_parameters(sums, numbers=[1, (each for each in ())])
    assert why_not([(each for each in ())], "numbers").startswith("numbers[0] is a generator, which can't leave its")
    assert why_not(Closed(), "mine").startswith("mine.lock is a generator") and why_not([1], "numbers") == ""
    with pytest.raises(PicklingError, match=r"^the sum can't be sent .*: mine\.lock is a generator(.*\n)*Send less\.$"):
        put(Closed(), "the sum", "mine", "Send less.")
    assert kernel.get(put([1], "the sum", "mine", "Send less.")) == [1]


def test_without_a_session_nobody_can_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(value: Any) -> Any:
        raise RuntimeError("no room")

    monkeypatch.setattr(kernel, "put", fails)
    assert why_not([1], "numbers") == ""


@pytest.mark.parametrize("trainable", [Sums, sums])
def test_datasets_are_in_the_configuration_and_what_it_has_comes_first(trainable: Any) -> None:
    given = with_datasets(trainable, {"train": [1, 2], "test": [9]})
    assert total_of(given) == 3 and given.__name__ == trainable.__name__
    assert trainable is Sums or given.__module__ == __name__
    assert total_of(given, {"datasets": {"train": [10]}}) == 10


def test_resources_are_those_of_the_class() -> None:
    more = with_resources(Sums, {"cpu": 2})
    assert more.default_resource_request({}) == {"cpu": 2} and more.__qualname__ == "Sums"
    wrapped = with_resources(sums, lambda config: {"cpu": config["x"]})
    assert wrapped.default_resource_request({"x": 3}) == {"cpu": 3} and wrapped.__name__ == "sums"
    both = with_parameters(wrapped, numbers=[1])
    assert both.default_resource_request({"x": 4}) == {"cpu": 4} and total_of(both) == 1


def test_what_is_pinned_stays() -> None:
    reference = pin_in_object_store([1, 2])
    assert get_pinned_object(reference) == [1, 2]


@pytest.mark.parametrize("use_object_store", [True, False])
def test_saving_and_restoring_is_tried_in_processes(use_object_store: bool) -> None:
    assert validate_save_restore(Sums, use_object_store=use_object_store)


def test_what_does_not_come_back_is_named() -> None:
    class Forgets(Sums):
        def restore(self, checkpoint_path: Any) -> None:
            pass

    with pytest.raises(ValueError, match="Forgets did not keep training_iteration: 1 after a restore, not 4"):
        validate_save_restore(Forgets)

    class Elsewhere(Sums):
        def save_checkpoint(self, checkpoint_dir: str) -> Any:
            return "/somewhere/else"

    with pytest.raises(TaskError, match="not in the directory that it was given"):
        validate_save_restore(Elsewhere)
