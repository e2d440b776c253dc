"""`ray.exceptions`: the errors of kernel under Ray's names, in Ray's families.

Once `import ray` means kernel's, every error that the process makes is of these classes, and of kernel's as well: see
`kernel_spec.stand_ins`.
"""

from __future__ import annotations

import kernel.exceptions as ours
from kernel_spec.stand_ins import stands_for

STAND_INS: dict[type[BaseException], type[BaseException]] = {}
"""Maps a class of kernel to that of Ray."""


class RayError(ours.KernelError):
    """Reports a failure of a task, an actor, an object or a machine. Errors of wrong use have Python's own types."""


class RayTaskError(RayError, ours.TaskError):
    """Raised if a task raised `cause`. The error is of the cause's type, too."""

    @classmethod
    def name_for(cls, raised: str) -> str:
        """Return what the class of an error is called that stands for an exception of the class `raised`."""
        return f"RayTaskError({raised})"

    def __str__(self) -> str:
        return _with_remote_lines(self) or self.message

    @property
    def traceback_str(self) -> str:
        """Return the remote traceback."""
        return self.remote_traceback

    def as_instanceof_cause(self) -> RayTaskError:
        """Return the error itself, which is of its cause's type."""
        return self


class RayActorError(RayError, ours.ActorError):
    """A call of an actor failed because of the actor's process."""

    actor_init_failed = False
    preempted = False

    @property
    def error_msg(self) -> str:
        """Return the message."""
        return str(self)


class ActorDiedError(RayActorError, ours.ActorDiedError):
    """The actor is gone for good."""

    @classmethod
    def name_for(cls, raised: str) -> str:
        """Return what the error of a constructor that raised is called."""
        return cls.__name__

    @property
    def actor_init_failed(self) -> bool:  # type: ignore[override]
        """Return whether the constructor raised."""
        return isinstance(self, ours.TaskError)

    def __str__(self) -> str:
        lines = _with_remote_lines(self)
        said = "The actor died because of an error raised in its creation task, "
        return said + lines if lines else super().__str__()


class ActorUnavailableError(RayActorError, ours.ActorUnavailableError):
    """The actor restarts; the call may or may not have run."""


class WorkerCrashedError(RayError, ours.WorkerDiedError):
    """The process that ran the task died."""


class TaskCancelledError(RayError, ours.TaskCancelledError):
    """The task was cancelled."""


class GetTimeoutError(RayError, ours.GetTimeoutError):
    """`ray.get(timeout=...)` ran out."""


class ObjectLostError(RayError, ours.ObjectLostError):
    """An object is lost for good."""


class OwnerDiedError(ObjectLostError, ours.OwnerDiedError):
    """An object is lost because the process that owned it is gone."""


class ObjectFetchTimedOutError(ObjectLostError):
    """Never raised here: a copy that does not come is fetched from elsewhere, and if all fail the object is lost."""


class ObjectFreedError(ObjectLostError):
    """Never raised here: objects go with their last reference."""


class ReferenceCountingAssertionError(ObjectLostError, AssertionError):
    """Never raised here."""


class PlasmaObjectNotAvailable(RayError):
    """Never raised here: a process waits for an object that is not on its node."""


class ObjectStoreFullError(RayError, ours.ObjectStoreFullError):
    """The object store is full of objects in use, and so is the disk."""


class OutOfDiskError(RayError, ours.OutOfDiskError):
    """The disk that objects are spilled to is full."""


class OutOfMemoryError(RayError, ours.OutOfMemoryError):
    """A worker was ended because memory ran out."""


class NodeDiedError(RayError, ours.NodeDiedError):
    """A machine is gone."""


class LocalRayletDiedError(RayError, ours.SessionEndedError):
    """The node agent of this process is gone."""


class PendingCallsLimitExceeded(RayError, ours.PendingCallsLimitError):
    """An actor has `max_pending_calls` calls waiting."""


class RuntimeEnvSetupError(RayError, ours.RuntimeEnvError):
    """A runtime_env can't be set up."""


class TaskPlacementGroupRemoved(RayError, ours.PlacementGroupRemovedError):
    """The placement group of the task was removed."""


class TaskUnschedulableError(RayError, ours.InfeasibleError):
    """Nothing in the session could ever satisfy the request."""


class ActorAlreadyExistsError(RayError, ours.NameTakenError):
    """Another living actor has this name."""


class ActorHandleNotFoundError(RayError, ValueError):
    """Never raised here: the call of an unknown actor fails with ActorDiedError."""


class RpcError(RayError, ours.ProtocolError):
    """A connection received bytes that are not ours, or not authenticated."""


class RaySystemError(RayError, ours.InternalError):
    """A bug of the kernel."""


class UnserializableException(RayError):
    """Never raised here: an exception that can't cross processes arrives as a RayTaskError with its text."""


class OufOfBandObjectRefSerializationException(RayError):
    """Never raised here: a reference that is pickled by other means keeps its object."""


class RayChannelError(RaySystemError):
    """Never raised here: there are no channels."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """Never raised here: there are no channels."""


class RayCgraphCapacityExceeded(RaySystemError):
    """Never raised here: there are no channels."""


class RayDirectTransportError(RaySystemError):
    """Never raised here: tensors travel through the object store."""


class StreamingGeneratorReplayInconsistentError(RaySystemError):
    """Never raised here: a stream that is made again goes on where it was."""


class AsyncioActorExit(RayError):
    """Never raised here: an actor's exit is an ActorDiedError, whatever kind of actor it was."""


class CrossLanguageError(RayError):
    """Never raised here: there is one language."""


class ObjectRefStreamEndOfStreamError(RayError):
    """Never raised here: the end of a stream is StopIteration."""


class UserCodeException(RayError):
    """Never raised here: a task's exception arrives as a RayTaskError."""


class _OtherFault(RayError, ours.FaultError):
    """Reports a fault for which Ray has no name: it is a RayError under kernel's name."""


def _with_remote_lines(error: BaseException) -> str:
    """Return the text that Ray shows of a task's error: the function and its traceback; "" for other errors."""
    lines = getattr(error, "remote_traceback", "")
    if not lines:
        return ""
    name = error.function_name  # type: ignore[attr-defined]
    head, _, rest = lines.partition("\n")
    shown = rest if head.startswith("Traceback") else lines
    called = name if name.endswith(")") else f"{name}()"
    return f"ray::{called} (pid={error.pid}, node={error.node})\n{shown}"  # type: ignore[attr-defined]


_CLASSES = [cls for cls in list(vars().values()) if isinstance(cls, type) and issubclass(cls, RayError)]
for _cls in _CLASSES:
    _cls.__module__ = "ray.exceptions"
    _stood_for = _cls.__bases__[-1]
    if _stood_for.__module__ == ours.KernelError.__module__ and _cls is not RayError:
        STAND_INS[_stood_for] = _cls


def use_names_of_ray() -> None:
    """Have this process make errors of these classes. Safe to call twice."""
    for error, cls in STAND_INS.items():
        stands_for(error, cls)
