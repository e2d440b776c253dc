"""Calling what of the user's a run has: each method with the arguments that it names, and errors that say where."""

from __future__ import annotations

import importlib
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.callbacks.callbacks import EVENTS, RLlibCallback
from kernel_rllib.callbacks.legacy import of_info
from kernel_rllib.errors import CallbackError, ConfigError

Functions = Mapping[str, Sequence[Callable[..., Any]]]


@dataclass(frozen=True)
class CallbackSettings:
    """Holds the user's callbacks, as classes and functions. Runners get it, and make objects of their own from it.

    Attributes:
        classes: Classes of callbacks, or functions that return an object of one.
        functions: Functions by event.
        infos: Functions of one dict, by their names in 0.8.5.
    """

    classes: tuple[Callable[[], Any], ...] = ()
    functions: Functions = field(default_factory=dict)
    infos: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Samples:
    """The sample of a runner, as each generation passes it: older callbacks, which name `worker`, get a batch."""

    batch: Any
    episodes: Sequence[Any]


@dataclass(frozen=True)
class _Call:
    """One function that an event calls.

    Attributes:
        label: The name in messages.
        function: The function that is called.
        named: The arguments that it names.
        takes_all: Whether it takes all others as well.
    """

    label: str
    function: Callable[..., Any]
    named: tuple[str, ...]
    takes_all: bool

    def __call__(self, event: str, given: Mapping[str, Any]) -> None:
        """Call it with what it names."""
        names = EVENTS[event] if self.takes_all else self.named
        chosen = {name: given[name] for name in names if name in given}
        samples = chosen.get("samples")
        if isinstance(samples, Samples):
            is_older = "worker" in self.named and "env_runner" not in self.named
            chosen["samples"] = samples.batch if is_older else samples.episodes
        self.function(**chosen)


class CallbackSet:
    """The callbacks of one process, by event."""

    def __init__(self, settings: CallbackSettings) -> None:
        """Make the objects.

        Raises:
            ConfigError: If one can't be made, or a method names an argument that its event does not have.
        """
        self.objects = [each for make in settings.classes for each in _members(_made(make))]
        self._calls: dict[str, list[_Call]] = {}
        for each in self.objects:
            for event, function in _methods(each):
                self._add(event, f"{type(each).__name__}.{event}", function)
            for name, function in getattr(each, "legacy_callbacks", {}).items():
                self._add_info(name, function, f"{type(each).__name__}")
        for event, functions in settings.functions.items():
            for function in functions:
                self._add(event, f"{event}={_name(function)}", function)
        for name, function in settings.infos.items():
            self._add_info(name, function, "callbacks")

    def has(self, *events: str) -> bool:
        """Return whether any of these events calls something."""
        return any(event in self._calls for event in events)

    def call(self, event: str, given: Mapping[str, Any]) -> None:
        """Call all that an event calls, in order.

        Args:
            event: One of `EVENTS`.
            given: Its arguments by name.

        Raises:
            CallbackError: If one raises; that is chained.
        """
        for call in self._calls.get(event, ()):
            try:
                call(event, given)
            except Exception as error:
                raise CallbackError(_raised(call.label, error)) from error

    def _add(self, event: str, label: str, function: Callable[..., Any]) -> None:
        self._calls.setdefault(event, []).append(_Call(label, function, *_names(event, label, function)))

    def _add_info(self, name: str, function: Callable[..., Any], title: str) -> None:
        event, call = of_info(name, function, title)
        self._calls.setdefault(event, []).append(_Call(f"{title}[{name!r}]", call, ("worker",), True))


def settings_of(callbacks_class: Any, functions: Mapping[str, Any]) -> CallbackSettings:
    """Return what settings say is called.

    Args:
        callbacks_class: A class, a function that returns an object, the dotted path of one, a list of these, a dict of
            functions of 0.8.5, or None.
        functions: A function, a list of functions, or None by event.

    Raises:
        ConfigError: If a dotted path leads nowhere.
    """
    infos = callbacks_class if isinstance(callbacks_class, Mapping) else {}
    classes = () if infos or callbacks_class is None else callbacks_class
    classes = tuple(classes) if isinstance(classes, (list, tuple)) else (classes,)
    listed = {
        event: tuple(given) if isinstance(given, (list, tuple)) else (given,)
        for event, given in functions.items()
        if given
    }
    return CallbackSettings(tuple(_class(each) for each in classes), listed, dict(infos))


def _class(given: Any) -> Callable[[], Any]:
    if not isinstance(given, str):
        return given  # type: ignore[no-any-return]
    module, _, name = given.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError):
        raise ConfigError(
            f"callbacks are {given!r}, but there is no class at that path: give the class itself, or module.Class"
        ) from None


def _made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except Exception as error:
        raise ConfigError(
            f"the callbacks {_name(make)} can't be made without arguments: {type(error).__name__}: {error}. Give a "
            "function that makes them, such as lambda: MyCallbacks(1)."
        ) from error


def _members(callbacks: Any) -> Iterator[Any]:
    """Yield callbacks, and what they stand for beside themselves; see `multi.MultiCallbacks`."""
    yield callbacks
    for each in getattr(callbacks, "members", ()):
        yield from _members(each)


def _methods(callbacks: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the methods that a class has of its own, by event."""
    for event in EVENTS:
        found = getattr(type(callbacks), event, None)
        if found is not None and found is not getattr(RLlibCallback, event):
            yield event, getattr(callbacks, event)


def _names(event: str, label: str, function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Return the arguments that a function names, and whether it takes all others as well."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # It is written in C, without a signature.
        return (), True
    known = EVENTS[event]
    unknown = [
        each.name
        for each in parameters
        if each.name not in known
        and each.default is each.empty
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    if unknown:
        raise ConfigError(
            f"{label} has the parameter {unknown[0]!r}, which nothing is given for: {event} has {', '.join(known)}"
        )
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    return tuple(each.name for each in parameters if each.name in known), takes_all


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _raised(label: str, error: Exception) -> str:
    """Return what is said of a callback that raised: which one, what, and the line where it did, in the user's file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and "kernel_rllib" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        code = trace.tb_frame.f_code
        line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
        where = f" in {code.co_filename}, line {trace.tb_lineno}" + (f": {line}" if line else "")
    return f"the callback {label} raised {type(error).__name__}: {error}{where}"
