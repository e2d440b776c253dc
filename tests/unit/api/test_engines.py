"""Which engine is opened, how it is found, and what is asked of the session that it opens."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernel
from kernel.api import engines, session
from kernel.api.engines import OWN, engine_name, find_engine
from kernel.installing import install_command
from kernel_spec.engines import SessionOptions
from kernel_spec.errors import ContractError, OptionError, PluginError, PluginNotFoundError
from kernel_spec.hooks import ENGINE_GROUP

MODULE = "engine_of_this_test"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The entry points of engines, besides the kernel's own."""
    found: list[tuple[str, str]] = []
    monkeypatch.setattr("kernel.plugins.installed_target.entry_points", lambda group: [*found, *OWN.items()])
    return found


class Opened:
    """A session that remembers what is asked of it, and the engine that opens it."""

    def __init__(self) -> None:
        self.happened: list[Any] = []
        self.runtime: Any = SimpleNamespace(
            node=b"n", job=b"j", namespace="space", session_directory="/nowhere", local_mode=False,
            query=lambda *question: self.happened.append(question[0]),
            shutdown=lambda: self.happened.append("shutdown"),
        )  # fmt: skip

    def __call__(self, options: SessionOptions) -> Opened:
        self.happened.append(options.namespace)
        return self

    def end(self) -> None:
        self.happened.append("end")

    def forget(self) -> None:
        self.happened.append("forget")


def test_the_argument_goes_before_the_environment_and_that_before_the_default() -> None:
    assert engine_name(True, {"KERNEL_ENGINE": "mine"}) == "local"
    assert engine_name(False, {"KERNEL_ENGINE": " mine "}) == "mine"
    assert engine_name(False, {"KERNEL_ENGINE": ""}) == engine_name(False, {}) == "processes"


def test_the_kernels_own_engines_are_found_without_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("kernel.plugins.installed_target.entry_points")
    for name, target in OWN.items():
        opens = find_engine(name)
        assert f"{opens.__module__}:{opens.__name__}" == target  # type: ignore[attr-defined]


def test_the_kernels_own_engines_have_entry_points_too() -> None:
    installed = {(point.name, point.value) for point in entry_points(group=ENGINE_GROUP)}
    assert installed >= set(OWN.items())


def test_an_engine_that_nobody_offers(installed: list[tuple[str, str]]) -> None:
    installed.append(("mine", f"{MODULE}:opens"))
    with pytest.raises(PluginNotFoundError) as caught:
        find_engine("proceses")
    assert str(caught.value) == (
        "there is no engine named 'proceses' (KERNEL_ENGINE), did you mean 'processes'?; "
        "there are local, mine, processes"
    )


def test_an_engine_that_several_offer(installed: list[tuple[str, str]]) -> None:
    installed += [("mine", "one:opens"), ("mine", "other:opens")]
    with pytest.raises(ContractError) as caught:
        find_engine("mine")
    assert str(caught.value) == (
        "several engines named 'mine' are installed: one:opens, other:opens; uninstall all but one"
    )


def test_an_engine_that_can_not_be_imported(installed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    installed.append(("mine", f"{MODULE}:opens"))
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(other=1))  # type: ignore[arg-type]
    with pytest.raises(
        PluginError, match=rf"^the engine 'mine' \({MODULE}:opens\) can't be imported: AttributeError: "
    ):
        find_engine("mine")


def test_init_opens_the_engine_of_the_environment(
    installed: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened()
    installed.append(("mine", f"{MODULE}:opens"))
    monkeypatch.setitem(sys.modules, MODULE, SimpleNamespace(opens=opened))  # type: ignore[arg-type]
    monkeypatch.setenv(engines.VARIABLE, "mine")
    with kernel.init(namespace="given") as info:
        assert info["namespace"] == "space"
        session._leave_in_child()
        assert not kernel.is_initialized()
        with pytest.raises(kernel.exceptions.NotInitializedError, match="forked from one that is in a session"):
            kernel.get_runtime_context()
    assert opened.happened == ["given", "forget"]


def test_a_session_is_ended_after_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened()
    monkeypatch.setattr(session, "find_engine", lambda name: opened)
    kernel.init(runtime_env={"env_vars": {"A": "1"}})
    kernel.shutdown()
    kernel.shutdown()
    assert opened.happened == [None, "add_environment", "shutdown", "end"]


def test_an_environment_that_can_not_be_made_ends_the_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = Opened()
    monkeypatch.setattr(session, "find_engine", lambda name: opened)
    with pytest.raises(kernel.exceptions.KernelError):
        kernel.init(runtime_env={"working_dir": str(tmp_path / "missing")})
    assert opened.happened == [None, "shutdown", "end"]
    assert not kernel.is_initialized()


def test_a_session_falls_back_to_local_mode_only_where_nothing_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened()

    def find(name: str) -> Any:
        def fails(options: SessionOptions) -> Any:
            missing = PluginNotFoundError("no store")
            missing.asked_for = options.namespace == "asked"
            raise missing

        return opened if name == "local" else fails

    monkeypatch.setattr(session, "find_engine", find)
    with kernel.init():
        assert opened.happened == [None]
    for options in ({"namespace": "asked"}, {"address": "auto"}):
        with pytest.raises(PluginNotFoundError, match="^no store$"):
            kernel.init(**options)  # type: ignore[arg-type]


def test_local_mode_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engines.VARIABLE, "local")
    with pytest.raises(OptionError) as caught:
        kernel.init("auto")
    assert str(caught.value) == "local mode joins no session, so it can't be had with address='auto'"


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the engine of many processes is installed."""
    monkeypatch.setitem(sys.modules, "kernel_processes", None)  # type: ignore[arg-type]
    for name in [name for name in sys.modules if name.startswith("kernel_processes.")]:
        monkeypatch.delitem(sys.modules, name)


HOW = f"the engine of many processes is not installed: {install_command('processes')}"


def test_where_there_are_no_processes_a_session_is_in_this_one(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(session.Logger, "warning", lambda self, text, **more: said.append(text))
    with kernel.init() as told:
        assert told["local_mode"] and kernel.get(kernel.remote(abs).remote(-2)) == 2
    assert said == [f"everything runs in this process (local mode); for all cores: {install_command('plugins')}"]


@pytest.mark.parametrize(("arguments", "variables"), [({"address": "auto"}, {}), ({}, {"KERNEL_ENGINE": "processes"})])
def test_processes_that_are_asked_for_are_not_replaced(
    alone: None, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PluginNotFoundError) as caught:
        kernel.init(**arguments)
    assert str(caught.value) == HOW


def test_local_mode_that_is_not_installed_says_how_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kernel_local_mode", None)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "kernel_local_mode.engine", raising=False)
    with pytest.raises(PluginNotFoundError) as caught:
        kernel.init(local_mode=True)
    assert str(caught.value) == f"local mode is not installed: {install_command('local_mode')}"
