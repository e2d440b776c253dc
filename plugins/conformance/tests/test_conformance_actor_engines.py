"""Engines with one mistake about actors do not pass the suite: the check that is about it fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kernel_conformance import engine_actors, engine_suite
from kernel_conformance.engine_actors import EngineActors
from kernel_local_mode.runtime import LocalRuntime

import kernel
from kernel.testing.first_failure import first_failure
from kernel_engine.one_process.runtime import OneProcessSession
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_spec.errors import KernelError
from plugins.conformance.tests.wrong_actor_engines import Threads


def suite(runtime: Any) -> type[EngineActors]:
    """Return the checks of actors, for an engine."""
    is_local = issubclass(runtime, LocalRuntime)

    def open_session(options: Any) -> Any:
        if is_local:
            return OneProcessSession(runtime(ValueSerializer(), options.namespace or "", options.node_resources()))
        return OneProcessSession(runtime(options.namespace))

    lacking = ("concurrent",) if is_local else ("async_actors", "concurrent_actors", "restarts")
    flags = dict.fromkeys(lacking, False)
    return type("Suite", (EngineActors,), {"make_session": staticmethod(open_session), **flags})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a wrong engine never does is not waited for."""
    monkeypatch.setattr(engine_suite, "PATIENCE_SECONDS", 2.0)
    yield
    kernel.shutdown()


@pytest.mark.parametrize(
    "kind", [*Threads.__subclasses__(), *LocalRuntime.__subclasses__()], ids=lambda kind: kind.__name__
)
def test_a_mistake_about_actors_is_found_by_the_check_that_is_about_it(kind: Any, impatient: None) -> None:
    with pytest.raises((AssertionError, KernelError)):
        getattr(suite(kind)(), kind.check)()


@pytest.mark.parametrize("kind", [Threads, LocalRuntime], ids=lambda kind: kind.__name__)
def test_the_engines_that_they_are_made_of_are_right(kind: Any) -> None:
    assert first_failure(suite(kind)) is None


def test_each_check_of_actors_is_tried() -> None:
    kinds: list[Any] = [*Threads.__subclasses__(), *LocalRuntime.__subclasses__()]
    checks = {name for name in vars(engine_actors.EngineActors) if name.startswith("test_")}
    assert checks - {kind.check for kind in kinds} == {
        "test_methods_return_several_values",
        "test_handles_travel",
    }
