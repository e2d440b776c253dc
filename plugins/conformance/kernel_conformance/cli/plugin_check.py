"""Runs the conformance suites on an installed plugin, without pytest."""

from __future__ import annotations

import importlib
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernel.api.engines import find_engine
from kernel.plugins import KINDS, PluginInfo, PluginManager
from kernel.plugins.installed_target import target_named
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import PluginError
from kernel_spec.hooks import NETWORK_GROUP
from kernel_spec.networks import VARIABLE

SUITES = {
    "scheduler": ("SchedulerConformance", "make_scheduler"),
    "object_store": ("ObjectStoreConformance", "make_store"),
    "serializer": ("SerializerConformance", "make_serializer"),
    "metadata_store": ("MetadataStoreConformance", "make_store"),
    "spill_target": ("SpillTargetConformance", "make_target"),
    "memory_guard": ("MemoryGuardConformance", "make_guard"),
    "environment": ("EnvironmentConformance", "make_builder"),
    "node_provider": ("NodeProviderConformance", "make_provider"),
    "accelerator": ("AcceleratorConformance", "make_accelerator"),
    "observer": ("ObserverConformance", "make_observer"),
    "metrics_sink": ("MetricsSinkConformance", "make_sink"),
    "engine": ("EngineConformance", "make_session"),
    "network": ("NetworkConformance", "network"),
}
"""Kind to the class in `kernel.conformance.<kind>` that has its tests, and what in it makes what is tested."""

_LOOP = "kernel_processes.transport.reactor"
"""The module of the loop that networks are given: that of the engine which networks are for."""

FLAGS = "CONFORMANCE"
"""A plugin module may set this to `{kind: {flag: value}}`: what its implementations do not promise to do.

A node provider's factory is given the flag `configuration`.
"""


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """One thing to try: `run` raises when it does not hold."""

    subject: str
    title: str
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """What came of a check. `problem` is empty when it passed, else a traceback."""

    check: ConformanceCheck
    seconds: float
    problem: str


def checks_of(manager: PluginManager, info: PluginInfo) -> list[ConformanceCheck]:
    """Return the checks for everything that the working plugin `info` offers."""
    flags: Mapping[str, Mapping[str, Any]] = getattr(manager.plugin(info.name), FLAGS, {})
    found: list[ConformanceCheck] = []
    for kind, name, factory in _offers(manager, info):
        subject = f"{KINDS[kind].title} {name}".strip()
        if kind in SUITES:
            found += _suite_checks(kind, subject, factory, flags.get(kind, {}))
        elif kind == "cli_command":
            found.append(
                ConformanceCheck(subject, "is a click command with a name and a help text", _command_check(factory))
            )
        else:
            found.append(
                ConformanceCheck(subject, "can be made, and has the methods of its contract", _service_check(factory))
            )
    return found


def checks_of_engine(name: str) -> list[ConformanceCheck]:
    """Return the checks for an installed engine. Raises PluginNotFoundError when there is none of that name.

    The module of its entry point has its flags.
    """
    opens: Any = find_engine(name)
    flags: Mapping[str, Mapping[str, Any]] = getattr(importlib.import_module(opens.__module__), FLAGS, {})
    return _suite_checks("engine", f"engine {name}", opens, flags.get("engine", {}))


def checks_of_network(name: str) -> list[ConformanceCheck]:
    """Return the checks for an installed network, whose flags are in the module of its entry point.

    Raises PluginNotFoundError when there is none of that name, and PluginError when it, or the engine that networks are
    for, can't be imported.
    """
    target = target_named(NETWORK_GROUP, "network", name, (), VARIABLE)
    module, _, attribute = target.partition(":")
    try:
        offered = importlib.import_module(module)
        network = getattr(offered, attribute)
    except Exception as error:  # the import of a plugin's module may raise anything
        raise PluginError(f"{target} can't be imported: {type(error).__name__}: {error}") from error
    try:
        make_loop = importlib.import_module(_LOOP).Reactor
    except ModuleNotFoundError as error:
        raise PluginError(
            "a network works in the loop of the engine of many processes, which is not installed: install "
            "kernel-processes"
        ) from error
    flags: Mapping[str, Mapping[str, Any]] = getattr(offered, FLAGS, {})
    made = {"make_loop": staticmethod(make_loop)}
    return _suite_checks("network", f"network {name}", network, flags.get("network", {}), made)


def run(checks: list[ConformanceCheck]) -> Iterator[CheckOutcome]:
    """Run the checks one after another and yield what came of each."""
    for check in checks:
        started = time.perf_counter()
        problem = ""
        try:
            check.run()
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a stranger's code raises is the answer, pytest's failures included
            problem = traceback.format_exc()
        yield CheckOutcome(check, time.perf_counter() - started, problem)


def suite_of(kind: str) -> tuple[str, str] | None:
    """Return the names of the conformance suite of a kind and of its factory attribute; None when it has none."""
    return SUITES.get(kind)


def _offers(manager: PluginManager, info: PluginInfo) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield kind, name and factory of everything the plugin offers; hook kinds have their class's name."""
    for kind_name, names in info.offers.items():
        for name in names:
            yield kind_name, name, manager.factory_of(info.name, kind_name, name)
    for kind in KINDS.values():
        if kind.pattern == "hook" and kind.hook in info.hooks:
            for thing in manager.offered_by(info.name, kind.name):
                yield kind.name, getattr(thing, "name", "") or type(thing).__name__, lambda thing=thing: thing


def _suite_checks(
    kind: str, subject: str, factory: Any, flags: Mapping[str, Any], made: Mapping[str, Any] = MappingProxyType({})
) -> list[ConformanceCheck]:
    """Return the checks of a kind's suite; `made` is what the suite is given besides, under the names that it has."""
    name, maker = SUITES[kind]
    base: type = getattr(importlib.import_module(f"kernel.conformance.{kind}"), name)
    if kind == "node_provider":
        configuration = flags.get("configuration", {})
        flags = {flag: value for flag, value in flags.items() if flag != "configuration"}
        make, factory = factory, lambda: make(configuration)
    unknown = [flag for flag in flags if not hasattr(base, flag)]
    if unknown:
        raise ValueError(f"{FLAGS}[{kind!r}] sets {', '.join(unknown)}, which {base.__name__} does not have")
    suite = type(base.__name__, (base,), {maker: staticmethod(factory), **flags, **made})
    titles = [name for name in dir(suite) if name.startswith("test_") and callable(getattr(suite, name))]
    return [ConformanceCheck(subject, name[5:].replace("_", " "), _method_check(suite, name)) for name in titles]


def _method_check(suite: type, name: str) -> Callable[[], None]:
    def run() -> None:
        test = suite()
        method = getattr(test, name)
        getattr(test, "setup_method", _nothing)()
        try:
            if "tmp_path" in getattr(method, "__code__", run.__code__).co_varnames:
                with tempfile.TemporaryDirectory() as directory:
                    method(tmp_path=Path(directory))
            else:
                method()
        finally:
            getattr(test, "teardown_method", _nothing)()

    return run


def _command_check(factory: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        import click

        command = factory()
        assert isinstance(command, click.Command), f"kernel_cli_commands must return click commands, not {command!r}"
        assert command.name, "a command needs a name"
        assert command.help or command.short_help, f"the command {command.name!r} needs a help text: its docstring"

    return run


def _service_check(factory: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        from kernel_spec.services import HeadService

        service = factory()
        assert isinstance(service, HeadService), f"{type(service).__name__} lacks a method of the HeadService contract"
        assert service.name, "a head service needs a name"

    return run


def _nothing() -> None:
    """Stand in for a method that a suite does not have."""
