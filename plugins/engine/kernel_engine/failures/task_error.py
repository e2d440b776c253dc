"""Carry the exception of a task to the process that asks for its result.

`capture` runs in the worker and can't fail: it makes a text of every exception, whatever this holds. `rebuild` runs
where the result is asked for and makes an exception that is both a `TaskError` and of the user's own type, so that
`except` clauses written for one process work for many; its traceback continues with the remote lines.

A task that fails because a task it waited for failed adds its own lines and its name to the record that it received.
So the whole chain reads as one traceback, and one line names the tasks through which it went.
"""

from __future__ import annotations

import pickle
import sys
from functools import cached_property, lru_cache
from types import new_class
from typing import Any

from kernel.runtime.critical_sections import critical
from kernel.runtime.hints import hint_of
from kernel.runtime.remote_traceback import frames_of, hide_internal_frames, is_group, traceback_of
from kernel_engine.failures.remote_text import text_of
from kernel_engine.serialization.carried_exception import pack, put_together, take_apart, unpack
from kernel_spec.errors import ActorDiedError, TaskError
from kernel_spec.stand_ins import stand_in

__all__ = ["capture", "hide_internal_frames", "rebuild", "record_of"]

_CHAIN_DEPTH = 8
_MESSAGE_LIMIT = 100_000
_HAS_NOTES = sys.version_info >= (3, 11)
_RECORD = "_kernel_record"

Record = dict[str, Any]
"""Plain data: `type`, `module`, `message`, `notes`, `frames`, `carried` (bytes or None), `cause`, `context`
(records or None), `suppress`, `message_only` of a group and its `members` (records or None), `ends_actor`, `actor_id`
("" outside of actors), and `tasks`: one `(name, process, pid, node, actor)` for each task that it went through,
innermost first."""


# -- in the worker -------------------------------------------------------------------------------------------------


@critical
def capture(
    error: BaseException,
    *,
    task_name: str,
    process: str,
    pid: int,
    node: str,
    actor: str | None = None,
    actor_id: str = "",
    ends_actor: bool = False,
) -> bytes:
    """Return `error`, raised by the task `task_name`, as bytes for `rebuild`. Never raises an `Exception`.

    `process` and `node` are shown to users, so the short forms of ids; `actor` is the name of an actor's class, and
    `actor_id` its whole id.
    With `ends_actor` (its constructor raised) what is rebuilt is an `ActorDiedError`, too.
    """
    where = (str(task_name), str(process), int(pid), str(node), None if actor is None else str(actor))
    try:
        record = _record(error, _CHAIN_DEPTH, {id(error)})
        record["tasks"] = [*record["tasks"], where]
        record.update(ends_actor=ends_actor, actor_id=actor_id)
        return pickle.dumps(record, 5)
    except Exception as trouble:
        record = _blank(type(error))
        record["message"] = f"(its message and frames could not be read: {type(trouble).__name__})"
        record["tasks"] = [where]
        record.update(ends_actor=ends_actor, actor_id=actor_id)
        return pickle.dumps(record, 5)


def of_constructor(data: bytes, where: tuple[str, str, int, str, str | None], actor_id: str) -> bytes:
    """Return what `capture` returned for an argument of an actor's constructor, as what the actor's calls raise.

    `where` is the constructor's row of `tasks`.
    """
    record = pickle.loads(data)
    return pickle.dumps({**record, "tasks": [*record["tasks"], where], "ends_actor": True, "actor_id": actor_id}, 5)


def record_of(error: BaseException) -> Record | None:
    """Return the record that `error` was rebuilt from, None for an exception of this process.

    It has, among others, `type`, `message`, `frames` (see `remote_traceback.Frame`) and `tasks`.
    """
    record = _attributes(error).get(_RECORD)
    if record is not None:
        return record  # type: ignore[no-any-return]
    stand_by = error.__cause__
    if isinstance(stand_by, RemoteTaskError):
        record = _attributes(stand_by).get(_RECORD)
        if record is not None and record["type"] == type(error).__qualname__ and stand_by.cause is error:
            return record  # type: ignore[no-any-return]
    return None


def _record(error: BaseException, depth: int, seen: set[int]) -> Record:
    came = record_of(error)
    frames = frames_of(error.__traceback__)
    if came is not None:
        known = came["frames"]
        if frames[len(frames) - len(known) :] != known:
            frames = frames + known
        return {**came, "frames": frames}
    record = _blank(type(error))
    record["message"] = _message(error)
    record["frames"] = frames
    record["carried"], left_behind = pack(error)
    notes = _attributes(error).get("__notes__") or ()
    record["notes"] = ["".join([note]) for note in notes if isinstance(note, str)]
    if (hint := hint_of(error, record["message"])) is not None:
        record["notes"].append(hint)
    record["notes"] += [f"  left behind, as it can't be pickled: .{name}" for name in left_behind]
    record["suppress"] = bool(error.__suppress_context__)
    record["cause"] = _linked(error.__cause__, depth, seen)
    if error.__cause__ is None and not error.__suppress_context__:
        record["context"] = _linked(error.__context__, depth, seen)
    members = getattr(error, "exceptions", None) if is_group(error) else None
    if members is not None:
        record["message_only"] = "".join([str(error.message)])  # type: ignore[attr-defined]
        record["members"] = [linked for member in members if (linked := _linked(member, depth, seen)) is not None]
    return record


def _linked(error: BaseException | None, depth: int, seen: set[int]) -> Record | None:
    if error is None or depth == 0 or id(error) in seen:
        return None
    seen.add(id(error))
    return _record(error, depth - 1, seen)


def _blank(cls: type) -> Record:
    return {
        "type": "".join([cls.__qualname__]),
        "module": "".join([str(cls.__module__)]),
        "message": "",
        "notes": [],
        "frames": [],
        "carried": None,
        "cause": None,
        "context": None,
        "suppress": False,
        "message_only": "",
        "members": None,
        "ends_actor": False,
        "actor_id": "",
        "tasks": [],
    }


def _message(error: BaseException) -> str:
    try:
        text = "".join([str(error)])
    except Exception as trouble:
        return f"(its __str__ raised {type(trouble).__name__})"
    if len(text) > _MESSAGE_LIMIT:
        return f"{text[:_MESSAGE_LIMIT]}... ({len(text) - _MESSAGE_LIMIT} more characters)"
    return text


def _attributes(error: BaseException) -> dict[str, Any]:
    return BaseException.__dict__["__dict__"].__get__(error)  # type: ignore[no-any-return]


# -- where the result is asked for ---------------------------------------------------------------------------------


@critical
def rebuild(data: bytes) -> BaseException:
    """Return a fresh exception to raise.

    It is a `TaskError` and an instance of the user's type, with the attributes of the original, which is its
    `.cause`. When the user's type admits no such thing (a final class), the original itself, with a `TaskError` as
    `__cause__`. When the original is no `Exception`, which here would look as if this program had been interrupted, or
    was to end: a `TaskError` with it as `.cause`. When it could not be carried, a `TaskError` with its text.
    """
    return _rebuilt(pickle.loads(data))


class RemoteTaskError(TaskError):
    """Is the `TaskError` half of what `rebuild` makes; the class actually raised is named after the user's type."""

    def __init_subclass__(cls, **_: Any) -> None:
        """Do not call the user's `__init_subclass__` for this generated class."""

    def __str__(self) -> str:
        record = _attributes(self).get(_RECORD)
        if record is None:
            return str(self.args[0]) if self.args else ""
        said = f"{_called(record['tasks'][0][0])} raised {record['type']}"
        if record["message"]:
            said = f"{said}: {record['message']}"
        return said if _HAS_NOTES else f"{said}\n{_where(record)}"

    # The properties below give way to attributes of the user's exception with the same names.

    @cached_property
    def function_name(self) -> str:  # type: ignore[override]
        """Return the name of the task, or of the actor's method, that raised."""
        return self._from_task(0)  # type: ignore[no-any-return]

    @cached_property
    def pid(self) -> int:  # type: ignore[override]
        """Return the process that it was raised in."""
        return self._from_task(2)  # type: ignore[no-any-return]

    @cached_property
    def node(self) -> str:  # type: ignore[override]
        """Return the first digits of the id of the node that it was raised on."""
        return self._from_task(3)  # type: ignore[no-any-return]

    @cached_property
    def remote_traceback(self) -> str:  # type: ignore[override]
        """Return where it was raised, as text."""
        return text_of(_attributes(self)[_RECORD])

    def _from_task(self, place: int) -> Any:
        return _attributes(self)[_RECORD]["tasks"][0][place]

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (pickle.dumps(_attributes(self)[_RECORD], 5),)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()


class ConstructorError(RemoteTaskError, ActorDiedError):
    """Is the same for an exception of an actor's constructor, which every call of the actor raises."""


def _rebuilt(record: Record) -> BaseException:
    base = ConstructorError if record["ends_actor"] else RemoteTaskError
    original = _original(record)
    if original is None:
        error: BaseException = _task_error_class(record["type"], None, base)(record["message"])
        _attributes(error).update(message=record["message"], cause=None)
        return _finish(error, record)
    if isinstance(original, Exception):
        try:
            error = put_together(_task_error_class(record["type"], type(original), base), take_apart(original))  # type: ignore[arg-type]
        except Exception:
            error = original
        if isinstance(error, TaskError) and error is not original:
            attributes = _attributes(error)
            attributes.setdefault("message", record["message"])
            attributes["cause"] = original
            return _finish(error, record)
    explanation = _task_error_class(record["type"], None, base)(record["message"])
    _attributes(explanation).update(message=record["message"], cause=original)
    if not isinstance(original, Exception):
        return _finish(explanation, record)
    _finish(explanation, record).__traceback__ = None
    _set(original, "__cause__", explanation)
    return original


def _finish(error: BaseException, record: Record) -> BaseException:
    attributes = _attributes(error)
    attributes[_RECORD] = record
    attributes["__notes__"] = [*record["notes"], _where(record)]
    if record["ends_actor"]:
        attributes["actor_id"] = record["actor_id"]
    _link(error, record)
    return error.with_traceback(traceback_of(record["frames"]))


def _where(record: Record) -> str:
    tasks = record["tasks"]
    names = " <- ".join(_called(name) for name, *_ in tasks)
    _, _, pid, node, actor = tasks[0]
    of_actor = f" of actor {actor}" if actor else ""
    return f"  in {names}, process {pid}{of_actor} on node {node}"


def _called(name: str) -> str:
    return name if name.endswith(")") else f"{name}()"


def _original(record: Record) -> BaseException | None:
    """Return the exception as the user raised it, with its traceback and chain, or None."""
    if record["members"]:
        original = _group(record)
    else:
        original = unpack(record["carried"]) if record["carried"] is not None else None
    if original is not None:
        _link(original, record)
        original = original.with_traceback(traceback_of(record["frames"]))
        if record["notes"]:
            _attributes(original)["__notes__"] = list(record["notes"])
    return original


def _group(record: Record) -> BaseException | None:
    """Return the group with members that have tracebacks; of the plain type when the user's can't be had."""
    members = [_chained(member) for member in record["members"]]
    carried = unpack(record["carried"]) if record["carried"] is not None else None
    if carried is not None:
        args, attributes, others = take_apart(carried)
        try:
            return put_together(type(carried), ((args[0], members), attributes, others))
        except Exception:
            carried = None
    group: BaseException = BaseExceptionGroup(record["message_only"], members)  # type: ignore[name-defined]  # noqa: F821
    return group


def _link(error: BaseException, record: Record) -> None:
    _set(error, "__cause__", _chained(record["cause"]))
    _set(error, "__context__", _chained(record["context"]))
    _set(error, "__suppress_context__", record["suppress"])


def _chained(record: Record | None) -> BaseException | None:
    """Return an exception of the chain: rebuilt if it came from a task, else as it was, else with its name."""
    if record is None:
        return None
    if record["tasks"]:
        return _rebuilt(record)
    original = _original(record)
    if original is not None:
        return original
    stand_in = _stand_in_class(record["type"], record["module"])(record["message"])
    _link(stand_in, record)
    return stand_in.with_traceback(traceback_of(record["frames"]))


def _set(error: BaseException, name: str, value: Any) -> None:
    """Set what a class with its own `__setattr__` might refuse."""
    BaseException.__dict__[name].__set__(error, value)


@lru_cache(maxsize=256)
def _task_error_class(name: str, user_type: type[BaseException] | None, base: type[RemoteTaskError]) -> type[TaskError]:
    """Return the class `TaskError[name]`. Raises whatever forbids subclassing `user_type`."""
    bases: tuple[type, ...] = (base,)
    plain = ActorDiedError if base is ConstructorError else TaskError
    own: Any = stand_in(plain)
    if not issubclass(base, own):
        bases = (own, base)
    if user_type is not None and not any(issubclass(kind, user_type) for kind in bases):
        bases = (*bases, user_type)
    # In module "builtins", so that tracebacks show the bare name. Pickle uses __reduce__ and never looks it up.
    members = {
        "__module__": "builtins" if own is plain else own.__module__,
        "__doc__": f"A task raised {name}.",
        "__reduce__": RemoteTaskError.__reduce__,
        "__reduce_ex__": RemoteTaskError.__reduce_ex__,
    }
    called = getattr(own, "name_for", TaskError.name_for)(name)
    return new_class(called, bases, exec_body=lambda namespace: namespace.update(members))


@lru_cache(maxsize=256)
def _stand_in_class(name: str, module: str) -> type[Exception]:
    return type(name, (Exception,), {"__module__": module, "__doc__": "Stands for an exception that can't be here."})
