"""The verbs on references: get, put, wait, cancel, kill; and the decorator that makes things remote."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from numbers import Integral
from types import FrameType
from typing import Any, ParamSpec, TypeVar, overload

from kernel.api.actor import ActorClass, ActorHandle, ActorMethod, handle_from_description
from kernel.api.generators import ObjectRefGenerator
from kernel.api.parameters import check_timeout
from kernel.api.remote_function import RemoteFunction
from kernel.api.session import ensure_session
from kernel.runtime import current
from kernel.runtime.current import get_runtime
from kernel.runtime.execution_context import current_execution
from kernel.runtime.interface import Runtime
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.shown_tracebacks import for_users
from kernel_spec.errors import ActorNotFoundError, ArgumentError, OptionError
from kernel_spec.nearest import did_you_mean

_COROUTINE = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CELLS = ("<module>", "<cell line")
"""Beginnings of the names of the code of a cell that uses `await`."""
_SHELLS = ("IPython.", "ipykernel.")
"""Beginnings of the names of modules that run cells in coroutines of their own."""

P = ParamSpec("P")
R = TypeVar("R")


@overload
def remote(target: type) -> ActorClass: ...  # type: ignore[overload-overlap]
@overload
def remote(target: Callable[P, R]) -> RemoteFunction[P, R]: ...
@overload
def remote(**options: Any) -> Callable[[Any], Any]: ...
def remote(target: Any = None, **options: Any) -> Any:
    """Make a function or class remote: `@kernel.remote`, `@kernel.remote(num_cpus=2)` or `kernel.remote(f)`.

    Raises OptionError at once for an unknown or misplaced option or a bad value, and ArgumentError for a target that is
    not a function or a class.
    """
    if target is None:
        return lambda decorated: _make_remote(decorated, options)
    if options:
        raise OptionError("give options alone, as in kernel.remote(num_cpus=2)(f)")
    return _make_remote(target, {})


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise ArgumentError(f"{target!r} is remote already; use .options(...) to change it")
    if inspect.isclass(target):
        return ActorClass(target, options)
    if callable(target):
        if inspect.iscoroutinefunction(target):
            raise ArgumentError(
                f"{target.__name__}() is an async function, which only actors run; make it a method of an actor, "
                "or call asyncio.run() in an ordinary function"
            )
        return RemoteFunction(target, options)
    raise ArgumentError(f"kernel.remote takes a function or a class, not a {type(target).__name__}")


def get(refs: Any, *, timeout: float | None = None) -> Any:
    """Wait for and return the value of a reference, or the values of a list of references, in order.

    `timeout` is in seconds. Raises the error that a task raised (which is also a `TaskError`), GetTimeoutError when the
    time is over, and a `FaultError` when a value is lost or can't be made.
    """
    __tracebackhide__ = True
    if timeout is not None:
        check_timeout(timeout)
    runtime = current._runtime or ensure_session(*_checked(refs))
    if "asyncio" in sys.modules:
        _warn_in_coroutine("get")
    try:
        if type(refs) is ObjectRef:
            return runtime.get_one(refs, timeout)
        return runtime.get(_checked(refs), timeout)
    except BaseException as error:
        raise for_users(error)


def _checked(refs: Any) -> Sequence[ObjectRef]:
    """Return the argument of `get` as a sequence of references. Raises ArgumentError for anything else."""
    if type(refs) is ObjectRef:
        return [refs]
    if not _are_refs(refs):
        raise ArgumentError(f"get() takes an ObjectRef or a list of them, not {_describe(refs)}{_instead(refs)}")
    return refs  # type: ignore[no-any-return]


def put(value: Any, *, weak: bool = False) -> ObjectRef:
    """Store a value and return a reference to it. The store may drop a `weak` value when space is short."""
    __tracebackhide__ = True
    try:
        return (current._runtime or ensure_session(value)).put(value, weak)
    except BaseException as error:
        raise for_users(error)


class _Arrival:
    """Represents the next item of a stream among the references that `wait` waits for."""

    __slots__ = ("_entry", "stream")

    def __init__(self, stream: ObjectRefGenerator, runtime: Runtime) -> None:
        self.stream = stream
        self._entry = runtime.next_arrival(stream._stream)


def wait(
    refs: Sequence[Any], *, num_returns: int = 1, timeout: float | None = None, fetch_local: bool = True
) -> tuple[list[Any], list[Any]]:
    """Wait until `num_returns` references are ready, at most `timeout` seconds; return (ready, others).

    Both lists keep the order of `refs`, which must not contain a reference twice. `others` may contain further ready
    ones. A stream, which a generator task returns, is ready when it has an item to take or has ended. Raises
    ArgumentError and OptionError for wrong arguments.
    """
    __tracebackhide__ = True
    has_streams = False
    if not _are_refs(refs):
        has_streams = isinstance(refs, (list, tuple)) and all(type(ref) in _WAITABLE for ref in refs)
        if not has_streams:
            raise ArgumentError(f"wait() takes a list of ObjectRefs, not {_describe(refs, _WAITABLE)}")
    runtime = current._runtime or ensure_session(*refs)
    if len(set(refs) if has_streams else {ref._entry.id for ref in refs}) != len(refs):
        raise OptionError("wait() takes each reference once; the list repeats some")
    if not refs:
        raise ArgumentError("wait() takes a list of ObjectRefs, and this one is empty: there is nothing to wait for")
    if not isinstance(num_returns, Integral) or not 1 <= num_returns <= len(refs):
        raise OptionError(f"num_returns must be between 1 and the {len(refs)} references given, not {num_returns!r}")
    if timeout is not None:
        check_timeout(timeout)
    _warn_in_coroutine("wait")
    try:
        if not has_streams:
            return runtime.wait(refs, num_returns, timeout, fetch_local)
        waited: Any = [_Arrival(ref, runtime) if type(ref) is ObjectRefGenerator else ref for ref in refs]
        ready, others = runtime.wait(waited, num_returns, timeout, fetch_local)
        return _with_streams(ready), _with_streams(others)
    except BaseException as error:
        raise for_users(error)


_WAITABLE = (ObjectRef, ObjectRefGenerator)


def _with_streams(refs: Sequence[Any]) -> list[Any]:
    return [ref.stream if type(ref) is _Arrival else ref for ref in refs]


def cancel(ref: ObjectRef | ObjectRefGenerator, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task or actor call that makes `ref`; `get` of it then raises TaskCancelledError.

    A waiting task never runs. A running one gets a KeyboardInterrupt (a coroutine is cancelled); with `force` its
    worker is ended. A call in a thread of an actor gets the interrupt when it executes Python code again, so not during
    `time.sleep`; a call that has used `get_runtime_context().is_canceled()` is not interrupted, and has to check again.
    For a stream, the task that yields it is cancelled, and `get` raises for the reference after the items that have
    arrived. `recursive` also cancels the tasks that the task has submitted. A finished task is left alone.
    """
    if type(ref) is ObjectRefGenerator:
        end = ref._stream.completed
        assert end is not None
        get_runtime().cancel(end, force, recursive)
        return
    if type(ref) is not ObjectRef:
        one_by_one = "; cancel one after the other" if isinstance(ref, (list, tuple)) else ""
        raise ArgumentError(f"cancel() takes an ObjectRef, not a {type(ref).__name__}{one_by_one}")
    get_runtime().cancel(ref, force, recursive)


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor's process at once; pending calls fail. With `no_restart=False` it may restart.

    Its destructor and exit handlers do not run. Raises ArgumentError unless `actor` is an actor's handle.
    """
    if not isinstance(actor, ActorHandle):
        raise ArgumentError(f"kill() takes an actor handle, not {_describe(actor)}; use cancel() for tasks")
    get_runtime().kill_actor(actor._actor_id, no_restart)


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """Return a handle to the living actor called `name`, in this namespace or in `namespace`.

    The handle does not keep the actor alive. Raises ActorNotFoundError when there is no such actor.
    """
    for argument, value in (("name", name), ("namespace", namespace)):
        if not isinstance(value, str) and (argument == "name" or value is not None):
            raise ArgumentError(f"get_actor(): {argument} must be a string, not a {type(value).__name__}")
    runtime = ensure_session()
    found = runtime.find_actor(name, namespace)
    if found is None:
        where = namespace or runtime.namespace
        raise ActorNotFoundError(f"no actor named {name!r} lives in namespace {where!r}{_near_actors(name, where)}")
    return handle_from_description(found, keeps=False)


def _near_actors(name: str, namespace: str) -> str:
    rows = get_runtime().list_named_actors(True)
    elsewhere = [row["namespace"] for row in rows if row["name"] == name]
    if elsewhere:
        return f"; one of that name lives in namespace {elsewhere[0]!r}"
    names = sorted(row["name"] for row in rows if row["namespace"] == namespace)
    return did_you_mean(name, names, f"it has {', '.join(names[:5])}" if names else "")


def list_named_actors(all_namespaces: bool = False) -> list[Any]:
    """Return the names of living actors in this namespace, or in all namespaces as dicts of name and namespace."""
    rows = ensure_session().list_named_actors(all_namespaces)
    return rows if all_namespaces else [row["name"] for row in rows]


def _are_refs(refs: Any) -> bool:
    return isinstance(refs, (list, tuple)) and all(type(ref) is ObjectRef for ref in refs)


def _describe(value: Any, right: tuple[type, ...] = (ObjectRef,)) -> str:
    if isinstance(value, (list, tuple)):
        wrong = next((item for item in value if type(item) not in right), None)
        return f"a {type(value).__name__} with a {type(wrong).__name__} in it"
    return f"a {type(value).__name__}"


def _instead(value: Any) -> str:
    """Return advice for a `value` that is often passed to `get` by mistake, otherwise ""."""
    if isinstance(value, ObjectRefGenerator):
        return "; iterate over it, and get each of the references that it yields"
    if isinstance(value, (RemoteFunction, ActorMethod)):
        return "; call it, with .remote(...), for a reference"
    if isinstance(value, ActorHandle):
        return "; call one of its methods, with .remote(...), for a reference"
    if isinstance(value, (Mapping, Set)):
        return "; get list(it.values())" if isinstance(value, Mapping) else "; get list(it)"
    if isinstance(value, (list, tuple)):
        return next((hint for item in value if (hint := _instead(item))), "")
    return ""


def _warn_in_coroutine(verb: str) -> None:
    # Another thread may be importing asyncio just now; then no loop runs yet.
    running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    if running_loop is None or running_loop() is None or current_execution.get().constructs:
        return
    if not _in_cell(sys._getframe(2)):
        better = "await ref, or asyncio.gather(*refs)" if verb == "get" else "asyncio.wait"
        warnings.warn(
            f"kernel.{verb}() in a coroutine blocks its event loop; use {better}", RuntimeWarning, stacklevel=3
        )


def _in_cell(frame: FrameType | None) -> bool:
    """Return whether `frame` is code of a notebook's cell or of a console's line, rather than of a coroutine.

    A cell runs in a loop too, but it may block that loop, because the user waits for the cell.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_flags & _COROUTINE:
            return code.co_name.startswith(_CELLS) or str(frame.f_globals.get("__name__")).startswith(_SHELLS)
        frame = frame.f_back
    return False
