"""Actor classes, which `@kernel.remote` makes of classes, handles to actors, and their methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kernel.api.generators import ObjectRefGenerator
from kernel.api.group_room import check_room
from kernel.api.options import (
    ACTOR,
    METHOD,
    check_options,
    count_returns,
    retry_exceptions,
    strategy_of,
    wanted_resources,
)
from kernel.api.parameters import UNKNOWN, SignatureParameters, parameters_of
from kernel.api.runtime_env import prepare_environment
from kernel.api.session import ensure_session
from kernel.api.super_calls import mend_super
from kernel.runtime import current
from kernel.runtime.current import get_runtime
from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition
from kernel.runtime.execution_context import NO_EXECUTION, ExitActor, current_execution
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.shown_tracebacks import for_users
from kernel.runtime.streams import ObjectStream
from kernel.runtime.worker_info import current_worker
from kernel_spec.errors import OptionError, OutsideActorError
from kernel_spec.ids import ActorId
from kernel_spec.nearest import did_you_mean

_METHOD_OPTIONS = "__kernel_method_options__"
_OWN = ("_cls", "_options", "_definition", "_session", "__name__", "__doc__", "__module__")
"""Attributes of an actor class itself; all others are those of its class."""
_NOT_CALLED = (
    "__class_getitem__",
    "__copy__",
    "__deepcopy__",
    "__del__",
    "__getattr__",
    "__getstate__",
    "__setstate__",
)
"""Special methods that can't be called on a handle, besides those of `object`: Python itself looks them up."""
_RESOURCES = ("num_gpus", "resources", "accelerator_type")
"""An actor with one of these options holds one CPU by default while it lives; an actor without them holds no CPU."""


def method(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Set options of an actor's method, as in `@kernel.method(num_returns=2, concurrency_group="io")`.

    Raises OptionError for an unknown option or a bad value.
    """
    checked = check_options(options, METHOD)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _METHOD_OPTIONS, checked)
        return function

    return mark


def exit_actor() -> None:
    """Leave the running method and end this actor for good; the method's call then fails with ActorDiedError.

    Other running calls have five seconds to finish, then coroutines are cancelled; unfinished and queued calls fail
    with ActorDiedError. The destructor (`__del__`) and exit handlers run. Threads and background tasks of the actor may
    call it, too. Raises OutsideActorError outside of an actor.
    """
    worker = current_worker()
    if not worker.actor:
        raise OutsideActorError("exit_actor() works only inside a method of an actor")
    execution = current_execution.get()
    worker.leave(execution.name)
    raise ExitActor if execution is not NO_EXECUTION else SystemExit  # SystemExit ends a thread silently


class ActorClass:
    """A class whose instances live in processes of their own: `Counter.remote(...)` starts one."""

    def __init__(self, cls: type, options: Mapping[str, Any]) -> None:
        self._cls = cls
        mend_super(cls)
        self._options = check_options(options, ACTOR)
        self._definition: ClassDefinition | None = None
        self._session: object = None
        self.__name__ = cls.__name__
        self.__doc__ = cls.__doc__
        self.__module__ = cls.__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"actor class {self.__name__} can't be instantiated directly; use {self.__name__}.remote(...)")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        name = self.__name__
        raise TypeError(
            f"a class can't inherit from the actor class {name}: inherit from a plain class, and make actor classes of "
            f"both, as in `class Plain{name}: ...` and `{name} = kernel.remote(Plain{name})`"
        )

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the class: a constant, a static or a class method. Raises AttributeError."""
        cls = self.__dict__.get("_cls")
        if cls is None or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        found = inspect.getattr_static(cls, name, None)
        if inspect.isfunction(found):
            raise AttributeError(
                f"{name}() is a method of the actors of {cls.__name__}: call it by a handle, as in "
                f"{cls.__name__}.remote(...).{name}.remote(...)"
            )
        try:
            return getattr(cls, name)
        except AttributeError:
            raise AttributeError(f"actor class {cls.__name__} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._cls, name, value)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._cls)

    def __subclasscheck__(self, subclass: type) -> bool:
        return issubclass(subclass, self._cls)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._cls)})

    def options(self, **options: Any) -> ActorClass:
        """Return an actor class with changed options; None resets an option. Raises OptionError for a bad one."""
        resets = {name: None for name, value in options.items() if value is None}
        return ActorClass(self._cls, {**self._options, **check_options(options, ACTOR), **resets})

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor and return a handle at once.

        Raises TypeError for arguments that the constructor does not take, OptionError for options that contradict each
        other, and NameTakenError when the actor's name is taken.
        """
        __tracebackhide__ = True
        try:
            return self._create(args, kwargs)
        except BaseException as error:
            raise for_users(error)

    def _create(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorHandle:
        runtime = current._runtime or ensure_session(*args, *kwargs.values())
        if self._session is not runtime or self._definition is None:
            self._definition = define_class(self._cls)
            self._session = runtime
        definition = self._definition
        options = self._actor_options()
        _check_groups(definition, options.concurrency_groups)
        _check_arguments(self._cls, args, kwargs)
        actor, ref, existing = runtime.create_actor(definition, options, args, kwargs)
        if existing is not None:
            return handle_from_description(existing, keeps=False)
        handle = ActorHandle(
            actor,
            definition.name,
            definition.methods,
            definition.is_async,
            options.max_task_retries,
            options.max_pending_calls,
            ref,
        )
        return handle

    def _actor_options(self) -> ActorOptions:
        given = self._options
        detached = given.get("lifetime") == "detached"
        if detached and "name" not in given:
            raise OptionError('lifetime="detached" needs a name: without one the actor could never be found again')
        if given.get("get_if_exists") and "name" not in given:
            raise OptionError("get_if_exists=True needs a name to look for")
        environment = given.get("runtime_env")
        wanted = wanted_resources(given, 1 if any(name in given for name in _RESOURCES) else 0)
        check_room(self.__name__, given, wanted)
        return ActorOptions(
            wanted,
            strategy_of(given),
            dict(given.get("scheduling_hints", {})),
            prepare_environment(environment) if environment else None,
            given.get("name", ""),
            given.get("namespace", ""),
            given.get("get_if_exists", False),
            detached,
            given.get("max_restarts", 0),
            given.get("max_task_retries", 0),
            given.get("max_concurrency", 0),
            given.get("concurrency_groups", {}),
            given.get("max_pending_calls", -1),
        )

    def __reduce__(self) -> Any:
        return ActorClass, (self._cls, self._options)

    def __repr__(self) -> str:
        return f"ActorClass({self.__module__}.{self.__name__})"


class ActorHandle:
    """A reference to an actor, which can be passed to tasks and other actors. The actor lives while any handle exists.

    A handle that was found by the actor's name (`get_actor`, `get_if_exists`), and copies of it, do not keep the actor
    alive.

    `handle.method.remote(...)` queues a call and returns a reference; calls of one caller run in order.
    """

    def __init__(
        self,
        actor: ActorId,
        class_name: str,
        methods: Mapping[str, Mapping[str, Any]],
        is_async: bool,
        max_task_retries: int,
        max_pending_calls: int,
        ref: ObjectRef | None,
    ) -> None:
        self._actor_id = actor
        self._class_name = class_name
        self._methods = methods
        self._is_async = is_async
        self._max_task_retries = max_task_retries
        self._max_pending_calls = max_pending_calls
        self._ref = ref

    def __getattr__(self, name: str) -> ActorMethod:
        methods = self.__dict__.get("_methods", {})
        options = methods.get(name)
        if options is None and name != "__kernel_terminate__":
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(f"actor {self._class_name} has no method {name!r}{did_you_mean(name, methods)}")
        method = ActorMethod(self, name, options or {})
        self.__dict__[name] = method
        return method

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._methods])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._actor_id == other._actor_id

    def __hash__(self) -> int:
        return hash(self._actor_id)

    def __repr__(self) -> str:
        return f"Actor({self._class_name}, {self._actor_id.hex()})"

    def __reduce__(self) -> Any:
        return _rebuild_handle, (
            self._actor_id,
            self._class_name,
            dict(self._methods),
            self._is_async,
            self._max_task_retries,
            self._max_pending_calls,
            self._ref,
        )


class ActorMethod:
    """One method of one actor. It holds its handle's reference, so `Counter.remote().method` keeps the actor."""

    def __init__(self, handle: ActorHandle, name: str, options: Mapping[str, Any]) -> None:
        self._actor = handle._actor_id
        self._ref = handle._ref
        self._name = name
        self._given = options
        self._limit = handle._max_pending_calls
        self._parameters = SignatureParameters(*options["takes"]) if "takes" in options else UNKNOWN
        self._title = f"{handle._class_name}.{name}()"
        self._handle_defaults = (handle._max_task_retries, handle._is_async)
        self._class_name = handle._class_name
        self._options = _call_options(self._class_name, name, options, handle._max_task_retries)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Queue a call and return its reference, or as a remote function does: a list, a stream, or None.

        Raises TypeError for arguments that the method does not take, and PendingCallsLimitError when
        `max_pending_calls` calls are pending.
        """
        __tracebackhide__ = True
        try:
            if kwargs or not self._parameters.least <= len(args) <= self._parameters.most:
                problem = self._parameters.problem(len(args), kwargs)
                if problem:
                    raise TypeError(f"{self._title} {problem}")
            runtime = get_runtime()
            if self._limit > 0:
                runtime.check_pending_calls(self._actor, self._limit)
            result = runtime.call_actor(self._actor, self._name, self._options, args, kwargs)
            return ObjectRefGenerator(result) if type(result) is ObjectStream else result
        except BaseException as error:
            raise for_users(error)

    def options(self, **options: Any) -> ActorMethod:
        """Return the method with changed options for its calls. Raises OptionError for an unknown or bad option."""
        changed = object.__new__(ActorMethod)
        changed.__dict__.update(self.__dict__)
        changed._given = {**self._given, **check_options(options, METHOD)}
        changed._options = _call_options(self._class_name, self._name, changed._given, self._handle_defaults[0])
        return changed

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"actor method {self._name}() can't be called directly; use .{self._name}.remote(...)")

    def __repr__(self) -> str:
        return f"ActorMethod({self._name})"


def _call_options(class_name: str, name: str, given: Mapping[str, Any], max_task_retries: int) -> CallOptions:
    return CallOptions(
        count_returns(given, bool(given.get("is_generator"))),
        given.get("max_task_retries", max_task_retries),
        retry_exceptions(given),
        given.get("concurrency_group", ""),
        given.get("stream_ahead", 0),
        name,
        class_name,
    )


def define_class(cls: type) -> ClassDefinition:
    """Return the definition of an actor class for the runtime: its methods, their options and parameters."""
    methods: dict[str, dict[str, Any]] = {}
    is_async = False
    for name, member in inspect.getmembers(cls, callable):
        if name.startswith("__") and (name in _NOT_CALLED or (hasattr(object, name) and name != "__call__")):
            continue
        function = inspect.unwrap(member)
        options = dict(getattr(member, _METHOD_OPTIONS, {}))
        bound = not isinstance(inspect.getattr_static(cls, name), staticmethod)
        options["takes"] = tuple(parameters_of(member, bound))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            is_async = True
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            options["is_generator"] = True
        methods[name] = options
    return ClassDefinition(cls, cls.__name__, methods, is_async)


def _check_arguments(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError, at the caller's line, when the constructor does not take these arguments."""
    if not _defines(cls, "__init__") and not _defines(cls, "__new__"):
        if args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return
    try:
        signature = inspect.signature(cls)
    except (ValueError, TypeError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.remote(): {error}") from None


def _check_groups(definition: ClassDefinition, groups: Mapping[str, int]) -> None:
    """Raise OptionError when a method names a concurrency group that the actor does not have."""
    for name, options in definition.methods.items():
        group = options.get("concurrency_group")
        if group and group not in groups:
            raise OptionError(
                f"{definition.name}.{name}() belongs to concurrency group {group!r}, which the actor does not have"
                f"{did_you_mean(group, groups)}; give it as in concurrency_groups={{{group!r}: 2}}"
            )


def _defines(cls: type, name: str) -> bool:
    return any(name in vars(base) for base in cls.__mro__[:-1])


def _rebuild_handle(
    actor: ActorId, class_name: str, methods: Any, is_async: bool, retries: int, limit: int, ref: ObjectRef | None
) -> ActorHandle:
    get_runtime().watch_actor(actor, class_name)
    return ActorHandle(actor, class_name, methods, is_async, retries, limit, ref)


def handle_from_description(found: Mapping[str, Any], keeps: bool) -> ActorHandle:
    """Return a handle to an actor from its description; with `keeps` the handle keeps the actor alive."""
    runtime = get_runtime()
    name, methods, is_async, retries = found["definition"]
    ref = None
    if keeps and not found["detached"]:
        ref = runtime.adopt(found["id"] + b"\0\0\0\0", found["owner"], found["owner_address"])
    runtime.watch_actor(found["id"], name)
    return ActorHandle(found["id"], name, methods, is_async, retries, found["max_pending_calls"], ref)
