"""Run one call in a worker: arguments in, the user's function, results or failure out. Any thread."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kernel.runtime.execution_context import ExitActor
from kernel.runtime.object_entry import INLINE, STORED
from kernel.runtime.remote_traceback import is_internal
from kernel.runtime.waiter import Waiter
from kernel.runtime.worker_info import current_worker
from kernel_engine.failures.task_error import capture
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.objects.value_placement import INLINE_BYTES, Stored, in_message, inline, inline_or_stored
from kernel_engine.serialization.layout import unpack
from kernel_engine.serialization.unpicklable import explain
from kernel_engine.serialization.unpickling_notes import naming
from kernel_engine.tasks.task_arguments import WITH_KEYWORDS, WITH_REFERENCES
from kernel_spec.errors import ActorDiedError, KernelError, ObjectLostError, TaskCancelledError
from kernel_spec.ids import ObjectId, ProcessId, TaskId, object_id
from kernel_spec.stand_ins import stand_in

if TYPE_CHECKING:
    from kernel_engine.surroundings import CallRuntime, EngineConnection

_ZERO = (0).to_bytes(4, "little")


class CallRunner:
    """Runs calls, and moves their values between this worker and the callers."""

    def __init__(self, runtime: CallRuntime) -> None:
        self._runtime = runtime
        self._serializer = runtime.serializer
        self._send = runtime.io.send
        self.actor_name: str | None = None
        self.post_mortem: Callable[[BaseException], BaseException] = lambda error: error
        """Returns the error of a call, after a debugger has been attached to it, if that is wanted."""

    # -- arguments -------------------------------------------------------------------------------------------------

    def arguments(
        self, connection: EngineConnection, arguments: Any, slots: tuple[Any, ...]
    ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any], Arrival | None]:
        """Return positional and named arguments, with references resolved, and what they still await."""
        if arguments is None:
            return (), {}, None
        return self.arguments_from(connection.info.id, connection.info.address, arguments, slots)

    def arguments_from(
        self, sender: ProcessId, address: str, arguments: Any, slots: tuple[Any, ...]
    ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any], Arrival | None]:
        """Do the same for arguments that `sender` sent through another process."""
        if arguments is None:
            return (), {}, None
        arrival: Arrival | None = None
        if slots or (type(arguments) is not int and arguments[0] & WITH_REFERENCES):
            arrival = Arrival(sender, Waiter(0))
        args: Any
        kwargs: dict[str, Any] = {}
        if type(arguments) is int:
            args = [None] * arguments
        else:
            flags, data, extra = arguments
            try:
                if type(extra) is list:
                    value = self._serializer.loads(data, extra, arrival)
                else:
                    view = self._runtime.store.view(data, extra, (sender, address))
                    value = self._serializer.loads(*unpack(view), arrival)
            except Exception as error:
                naming(error, "the arguments of the call, which did not begin")
                raise
            args, kwargs = value if flags & WITH_KEYWORDS else (value, kwargs)
        if slots:
            args = list(args)
            for slot in slots:
                try:
                    value = self._slot(slot, arrival)
                except Exception as error:
                    naming(error, f"{_described(slot)} of the call, which did not begin")
                    raise
                if type(slot[0]) is int:
                    args[slot[0]] = value
                else:
                    kwargs[slot[0]] = value
        return args, kwargs, arrival

    def _slot(self, slot: tuple[Any, ...], arrival: Arrival | None) -> Any:
        kind = slot[1]
        if kind == 0:
            return self._serializer.loads(slot[2], (), arrival)
        if kind == 1:
            return self._serializer.loads(slot[2], slot[3], arrival)
        id = ObjectId(slot[2])
        entry = self._runtime.ownership.objects.get(id)
        if entry is not None and entry.state == STORED:
            return self._serializer.loads(*self._runtime.values.stored_payload(entry), arrival)
        _, _, _, stored, owner = slot
        try:
            view = self._runtime.store.view(id, stored, owner)
        except ObjectLostError as error:
            return self._seek(id, stored, str(error), owner, arrival)
        return self._serializer.loads(*unpack(view), arrival)

    def _seek(
        self, id: ObjectId, stored: Stored, why: str, owner: tuple[ProcessId, str], arrival: Arrival | None
    ) -> Any:
        """Return an argument that could not be had from where it was: its owner has it made again."""
        runtime = self._runtime
        reference = runtime.ownership.adopt(id, *owner, arrival)
        with runtime.io.lock:
            runtime.ownership.report_lost(id, stored[1], why, *owner)
        return runtime.values.get_one(reference, None)

    def load_definition(self, blob: bytes, sender: ProcessId) -> Any:
        """Return the function or class that `sender` sent."""
        arrival = Arrival(sender, Waiter(0))
        value = self._serializer.loads(blob, (), arrival)
        self.settle(arrival)
        return value

    def settle(self, arrival: Arrival | None) -> None:
        """Wait until this process is registered as a borrower of what it received."""
        if arrival is not None and arrival.unsettled.remaining > 0:
            self._runtime.io.pump.wait(arrival.unsettled)

    # -- results ---------------------------------------------------------------------------------------------------

    def send_result(self, connection: EngineConnection, task: bytes, returns: int, value: Any, name: str) -> None:
        """Send what the function returned. Raises what makes it unsendable."""
        if returns == 1:
            head, buffers, refs = self._serializer.dumps(
                value, lambda error: explain(value, f"return value of {name}()", error, serializer=self._serializer)
            )
            if not buffers and not refs and len(head) <= INLINE_BYTES:
                self._send(connection, (op.DONE, task, head))
                return
            result = self._result(ObjectId(task + _ZERO), head, buffers, connection.info.id)
            self._send_results(connection, task, [result], [refs])
            return
        if returns == 0:
            self._send_results(connection, task, [], [])
            return
        results, carried = [], []
        try:
            for index, item in enumerate(_split(value, returns, name)):
                result, refs = self._encode(object_id(TaskId(task), index), item, connection.info.id, name)
                results.append(result)
                carried.append(refs)
        except BaseException:
            self._delete(TaskId(task), results)
            raise
        self._send_results(connection, task, results, carried)

    def send_item(self, connection: EngineConnection, task: bytes, index: int, value: Any, name: str) -> None:
        """Send one item of a generator."""
        key = object_id(TaskId(task), index)
        result, refs = self._encode(key, value, connection.info.id, name)
        with self._runtime.io.lock:
            carried = self._runtime.ownership.carry([r._entry for r in refs], connection.info.id, key)
        self._send(connection, (op.STREAM_ITEM, task, index, result, carried))

    def send_end(self, connection: EngineConnection, task: bytes) -> None:
        """Send the end of a generator."""
        head, buffers, _ = self._serializer.dumps(None)
        self._send(connection, (op.RESULTS, task, [in_message(INLINE, inline(head, buffers))], [()]))

    def _encode(self, id: ObjectId, value: Any, owner: ProcessId, name: str) -> tuple[tuple[Any, ...], Any]:
        head, buffers, refs = self._serializer.dumps(
            value, lambda error: explain(value, f"return value of {name}()", error, serializer=self._serializer)
        )
        return self._result(id, head, buffers, owner), refs

    def _result(self, id: ObjectId, head: bytes, buffers: Any, owner: ProcessId) -> tuple[Any, ...]:
        return in_message(*inline_or_stored(self._runtime.store.write, id, head, buffers, owner))

    def _delete(self, task: TaskId, results: list[tuple[Any, ...]]) -> None:
        """Delete what is stored of the first results of a call that now fails."""
        stored = [object_id(task, index) for index, result in enumerate(results) if result[0] == 2]
        io = self._runtime.io
        if stored:
            with io.lock:
                self._runtime.store.delete(stored)
            if io.agent is not None:
                io.agent.flush()  # Before the owner hears of it, and has others store them.

    def _send_results(self, connection: EngineConnection, task: bytes, results: list[Any], refs: list[Any]) -> None:
        carried: list[Any] = []
        if any(refs):
            with self._runtime.io.lock:
                for index, inner in enumerate(refs):
                    key = object_id(TaskId(task), index)
                    entries = [ref._entry for ref in inner]
                    carried.append(self._runtime.ownership.carry(entries, connection.info.id, key))
        self._send(connection, (op.RESULTS, task, results, carried or [()] * len(results)))

    # -- failures --------------------------------------------------------------------------------------------------

    def send_failure(self, connection: EngineConnection, task: bytes, name: str, error: BaseException) -> None:
        """Send why a call failed, unless this process ends with its agent: then it has not failed, but died."""
        agent = self._runtime.io.agent
        if agent is not None and agent.closed:
            return
        self._send(connection, (op.FAILED, task, *self.describe_failure(name, error)))

    def describe_failure(self, name: str, error: BaseException, ends_actor: bool = False) -> tuple[int, bytes]:
        """Return kind and data of a failure; with `ends_actor` of one that every call of this actor gets.

        An error of the kernel about this very call stays as it is; any error that came out of the user's code, even one
        of the kernel, becomes a TaskError that tells where it was raised.
        """
        if ends_actor and isinstance(error, (ExitActor, SystemExit)):  # Raised in the caller, it would end that, too.
            how = "exit_actor()" if isinstance(error, ExitActor) else f"sys.exit({error.code!r})"
            error = ActorDiedError(f"{name}() called {how}", actor_id=self._actor_id())
        if _is_said_of_the_call(error):
            return op.SYSTEM_ERROR, pickle.dumps(error)
        identity = self._runtime.identity
        return op.USER_ERROR, capture(
            error,
            task_name=name,
            process=identity.id.hex()[:8],
            pid=os.getpid(),
            node=identity.node.hex()[:8],
            actor=self.actor_name,
            actor_id=self._actor_id(),
            ends_actor=ends_actor,
        )

    def _actor_id(self) -> str:
        actor = current_worker().actor
        return actor.hex() if actor else ""

    def send_dead(self, connection: EngineConnection, task: bytes, name: str, reason: str) -> None:
        """Send that a call came too late, because this actor ends."""
        text = f"{name}() failed because the actor is dead: {reason}"
        error = ActorDiedError(text, actor_id=self._actor_id())
        self._send(connection, (op.FAILED, task, op.SYSTEM_ERROR, pickle.dumps(error)))

    def send_cancelled(self, connection: EngineConnection, task: bytes, name: str) -> None:
        """Send that a call was cancelled."""
        error = TaskCancelledError(f"task {name}() ({task.hex()}) was cancelled")
        self._send(connection, (op.FAILED, task, op.CANCELLED, pickle.dumps(error)))


def _is_said_of_the_call(error: BaseException) -> bool:
    """Return whether an error comes from this module, or another of the kernel, before any code of the user."""
    if not any(type(error) is stand_in(cls) for cls in type(error).__mro__ if cls.__module__ == KernelError.__module__):
        return False
    entry = error.__traceback__
    while entry is not None and is_internal(entry.tb_frame.f_code.co_filename):
        if entry.tb_frame.f_globals is globals():
            return True  # Frames of plugins below would look like the user's.
        entry = entry.tb_next
    return entry is None


def _described(slot: tuple[Any, ...]) -> str:
    which = f"argument {slot[0] + 1}" if type(slot[0]) is int else f"argument {slot[0]!r}"
    return which if slot[1] in (0, 1) else f"object {bytes(slot[2]).hex()}, {which}"


def _split(value: Any, returns: int, name: str) -> list[Any]:
    expected = f"{name}() has num_returns={returns} and must return that many values, but returned"
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
        raise TypeError(f"{expected} a {type(value).__name__}")
    items = list(value)
    if len(items) != returns:
        raise ValueError(f"{expected} {len(items)} values")
    return items
