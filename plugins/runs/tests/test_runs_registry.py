"""Trainables by name, and what may be given as one."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterator
from typing import Any

import pytest

from kernel_runs import FunctionTrainable, RunError, Trainable, register_env, register_trainable
from kernel_runs.shared_names import SharedNames
from kernel_runs.trainable import registry
from kernel_runs.trainable.registry import (
    GROUP,
    GROUP_OF_REASONS,
    as_trainable,
    find_environment,
    find_trainable,
    name_of,
)


class Mine(Trainable):
    pass


def mine(config: dict[str, Any]) -> dict[str, Any]:
    return {"a": 1}


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, kind in (("_trainables", "trainable"), ("_environments", "environment")):
        monkeypatch.setattr(registry, name, SharedNames(kind))
    yield


def test_a_name_stands_for_what_was_registered_last() -> None:
    register_trainable("mine", Mine)
    assert find_trainable("mine") is Mine
    register_trainable("mine", mine)
    assert issubclass(find_trainable("mine"), FunctionTrainable) and find_trainable("mine").__name__ == "mine"


def test_a_name_that_nobody_has_is_answered_with_the_nearest() -> None:
    register_trainable("walker", Mine)
    with pytest.raises(
        RunError,
        match=r"^no trainable is registered as 'walkr': register_trainable\(.*\) does that. Did you mean 'walker'",
    ):
        find_trainable("walkr")
    with pytest.raises(RunError, match=r"does that\.$"):
        find_trainable("nothing like it")


def test_installed_libraries_offer_trainables_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = importlib.metadata.EntryPoints(
        importlib.metadata.EntryPoint(name, value, GROUP)
        for name, value in (("Walker", "kernel_runs:Trainable"), ("Swimmer", "json:loads"))
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: offered.select(**wanted))
    assert find_trainable("Walker") is Trainable and issubclass(find_trainable("Swimmer"), FunctionTrainable)
    with pytest.raises(RunError, match="Did you mean 'Swimmer'"):
        find_trainable("swimmers")
    register_trainable("Walker", mine)
    assert find_trainable("Walker") is not Trainable, "what was registered comes first"


def why_no_walker(name: str) -> str | None:
    return "Walker comes later; take Swimmer" if name == "Walker" else None


def test_an_installed_library_may_say_why_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = importlib.metadata.EntryPoints(
        [importlib.metadata.EntryPoint("walkers", f"{__name__}:why_no_walker", GROUP_OF_REASONS)]
    )
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: offered.select(**wanted))
    with pytest.raises(RunError, match="^Walker comes later; take Swimmer$"):
        find_trainable("Walker")
    with pytest.raises(RunError, match="^no trainable is registered as 'Runner'"):
        find_trainable("Runner")


def test_environments_are_functions() -> None:
    register_env("cart", dict)
    assert find_environment("cart") is dict and find_environment("pole") is None
    with pytest.raises(TypeError, match="^environment 'pole' is 5: it is a function that makes one"):
        register_env("pole", 5)  # type: ignore[arg-type]


def test_what_may_be_a_trainable() -> None:
    class Trainer:
        def as_trainable(self) -> Any:
            return Mine

    assert as_trainable(Mine) is Mine and as_trainable(Trainer()) is Mine
    assert as_trainable(mine, "other").__name__ == "other"
    for given, message in [
        (dict, "^dict is a class, but not a Trainable: derive it from that, or give a function"),
        ("mine", "^a trainable is a function, a Trainable class or a registered name, not 'mine'"),
    ]:
        with pytest.raises(TypeError, match=message):
            as_trainable(given)


def test_what_it_is_called() -> None:
    assert [name_of(each) for each in ("PPO", mine, Mine, functools.partial(mine, {}), lambda config: 1, object())] == [
        "PPO", "mine", "Mine", "mine", "lambda", "object",
    ]  # fmt: skip
