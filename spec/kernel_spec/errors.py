"""Every error of the kernel and its plugins. The class tells whose move it is.

    KernelError
    ├── UsageError                      the caller's move: the program asked for something impossible
    │   ├── OptionError                 an option is unknown, misplaced or has a bad value (also TypeError, ValueError)
    │   ├── ArgumentError               a value where there must be another (also TypeError, ValueError)
    │   ├── OutsideActorError           a function only for actors was called elsewhere (also TypeError, RuntimeError)
    │   ├── OutsideCallError            a function only for tasks and actors was called elsewhere (also RuntimeError)
    │   ├── NotInitializedError         no session in this process
    │   ├── AlreadyInitializedError     a second init (also RuntimeError)
    │   ├── SerializationError          a value can't cross processes (also TypeError)
    │   ├── ReferenceUseError           a reference was used as a value (also TypeError, AttributeError)
    │   ├── NameTakenError              an actor or placement group of that name lives (also ValueError)
    │   ├── ActorNotFoundError          no actor of that name lives (also ValueError)
    │   ├── PlacementGroupNotFoundError no placement group of that name lives (also ValueError)
    │   ├── PlacementGroupRemovedError  the placement group that it was to run in was removed
    │   ├── PendingCallsLimitError      an actor's max_pending_calls is reached
    │   ├── GetTimeoutError             get(timeout=) ran out (also TimeoutError)
    │   ├── NoInputError                input() in a task, which has no terminal (EOFError)
    │   ├── RuntimeEnvError             a runtime_env can't be set up (also TypeError, ValueError)
    │   ├── MetricError                 a metric has a bad name, tag or value (also ValueError)
    │   └── InfeasibleError             nothing in the session could ever satisfy the request
    ├── TaskError                       user code raised; also an instance of the user's own exception type
    ├── TaskCancelledError              the task was cancelled
    ├── FaultError                      something died or ran out: retry, or give it more
    │   ├── WorkerDiedError             the process that ran the task died
    │   ├── ActorError
    │   │   ├── ActorDiedError          the actor is gone for good
    │   │   └── ActorUnavailableError   the actor restarts, the call may or may not have run
    │   ├── ObjectLostError             an object is lost
    │   │   └── OwnerDiedError          because the process that owned it is gone
    │   ├── ObjectStoreError
    │   │   ├── ObjectStoreFullError    the store is full of objects in use
    │   │   ├── SpillError              the spill target failed
    │   │   └── OutOfDiskError          the spill target is full
    │   ├── OutOfMemoryError            a worker was ended because memory ran out (also MemoryError)
    │   │   └── ActorOutOfMemoryError   and with it the actor (also ActorDiedError)
    │   ├── NodeDiedError               a machine is gone
    │   ├── SessionEndedError           the node agent of this process is gone
    │   ├── MetadataError               the metadata store failed
    │   │   └── HeadReplacedError       another head has claimed it: this one must stop
    │   └── NodeProviderError           the node provider failed
    ├── PluginError                     the plugin author's move
    │   ├── PluginNotFoundError         nothing of that kind and name is installed
    │   └── ContractError               a plugin does not fit its contract
    ├── ProtocolError                   bytes on a connection are not of our protocol, or not authenticated
    └── InternalError                   our move, a bug: please report it

A message says what happened, to which named thing, what was expected, and what to do next.
"""

from __future__ import annotations

from typing import Any, TypeVar

from kernel_spec.stand_ins import new_error

_ErrorT = TypeVar("_ErrorT", bound="KernelError")


class KernelError(Exception):
    """The base of all errors of the kernel and its plugins."""

    def __new__(cls: type[_ErrorT], *args: Any, **kwargs: Any) -> _ErrorT:
        """Make an error of the class that replaces this one in this process, if there is one (see `stand_ins`)."""
        made: _ErrorT = new_error(cls, *args, **kwargs)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self, OSError):  # which takes its arguments before, from the caller, where there is a `__new__`
            self.args = args


# -- the caller's move ---------------------------------------------------------------------------------------------


class UsageError(KernelError):
    """The program asked for something impossible."""


class OptionError(UsageError, TypeError, ValueError):
    """An option is unknown, misplaced or has a bad value."""


class ArgumentError(UsageError, TypeError, ValueError):
    """A function of the kernel got a value of a wrong kind, such as a number instead of a reference."""


class OutsideActorError(UsageError, TypeError, RuntimeError):
    """A function that works only inside an actor was called outside of one."""


class OutsideCallError(UsageError, RuntimeError):
    """A function that works only inside a task or an actor's call was called outside of one."""


class NotInitializedError(UsageError):
    """There is no session in this process."""


class AlreadyInitializedError(UsageError, RuntimeError):
    """There is a session in this process already."""


class SerializationError(UsageError, TypeError):
    """A value can't cross processes; the message names the path to the culprit."""


class ReferenceUseError(UsageError, TypeError, AttributeError):
    """A reference was used as if it were the value that it stands for."""


class NameTakenError(UsageError, ValueError):
    """An actor or a placement group of that name lives in the namespace."""


class ActorNotFoundError(UsageError, ValueError):
    """No actor of that name lives in the namespace."""


class PlacementGroupNotFoundError(UsageError, ValueError):
    """No placement group of that name lives in the namespace."""


class PlacementGroupRemovedError(UsageError):
    """The placement group that something was to run in was removed; the message says by what."""


class PendingCallsLimitError(UsageError):
    """An actor has `max_pending_calls` calls waiting."""


class GetTimeoutError(UsageError, TimeoutError):
    """`get(timeout=...)` ran out; the message says what it was still waiting for."""


class NoInputError(UsageError, EOFError):
    """`input()` was called in a task or an actor, whose process has no terminal."""


class RuntimeEnvError(UsageError, TypeError, ValueError):
    """A runtime environment can't be set up."""


class MetricError(UsageError, ValueError):
    """A metric has a name, tags or a value that it can't have."""


class InfeasibleError(UsageError):
    """Nothing in the session could ever satisfy the request."""


# -- what user code did --------------------------------------------------------------------------------------------


class TaskError(KernelError):
    """User code raised. `cause` is the original exception when it could be carried over, else None.

    `message` is what the exception said; `str()` says in front of it which task raised what.
    """

    function_name: str = ""
    """The task, or the actor's method, that raised."""
    remote_traceback: str = ""
    """The traceback in the task's process as text, with the chain of causes."""
    pid: int = 0
    """The process that it was raised in."""
    node: str = ""
    """The first digits of the id of the node that it was raised on."""

    def __init__(self, message: str, cause: BaseException | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause

    @classmethod
    def name_for(cls, raised: str) -> str:
        """Return the name of the error class for exceptions of the class `raised`."""
        return f"TaskError[{raised}]"

    def __str__(self) -> str:
        return self.message


class TaskCancelledError(KernelError):
    """The task was cancelled before it finished."""


# -- faults --------------------------------------------------------------------------------------------------------


class FaultError(KernelError):
    """Something died or ran out."""


class WorkerDiedError(FaultError):
    """The process that ran the task died; the message says how (signal, exit code, memory) and where."""


class ActorError(FaultError):
    """A call on an actor failed because of the actor's process. `actor_id` is the actor's, "" where it isn't known."""

    actor_id: str = ""

    def __init__(self, *args: object, actor_id: str = "") -> None:
        super().__init__(*args)
        if actor_id:
            self.actor_id = actor_id


class ActorDiedError(ActorError):
    """The actor is gone for good; the message says how it died."""


class ActorUnavailableError(ActorError):
    """The actor is restarting; the call may or may not have run."""


class ObjectLostError(FaultError):
    """An object is lost; the message says why."""


class OwnerDiedError(ObjectLostError):
    """The process that owned the object is gone, and the object with it."""


class ObjectStoreError(FaultError):
    """The object store failed."""


class ObjectStoreFullError(ObjectStoreError):
    """The object store is full of objects in use, and so is the disk, or a quota is; the message says what to do."""


class SpillError(ObjectStoreError):
    """The spill target failed."""


class OutOfDiskError(ObjectStoreError):
    """The spill target is full."""


class OutOfMemoryError(FaultError, MemoryError):
    """A worker was ended because the machine or its quota ran out of memory; the message says who held how much."""


class ActorOutOfMemoryError(OutOfMemoryError, ActorDiedError):
    """The actor is gone for good, because the machine or its quota ran out of memory."""


class NodeDiedError(FaultError):
    """A machine is gone."""


class SessionEndedError(FaultError):
    """The node agent that this process belonged to is gone."""


class MetadataError(FaultError):
    """The metadata store failed."""


class HeadReplacedError(MetadataError):
    """Another head has claimed the metadata store, and the message names it: this head must stop."""


class NodeProviderError(FaultError):
    """The node provider failed.

    `code` is a word of `kernel_spec.providers.ERROR_CODES`; `retry_after` is in how many seconds it may be tried again,
    None if that is not known.
    """

    def __init__(self, *args: Any, code: str = "unknown", retry_after: float | None = None) -> None:
        super().__init__(*args)
        self.code = code
        self.retry_after = retry_after


# -- plugins, wire, ours -------------------------------------------------------------------------------------------


class PluginError(KernelError):
    """A plugin is broken."""


class PluginNotFoundError(PluginError, LookupError):
    """No plugin of that kind and name is installed. `asked_for` says that it was chosen, rather than a default."""

    asked_for = True


class ContractError(PluginError):
    """A plugin does not fit its contract."""


class ProtocolError(KernelError):
    """Bytes on a connection are not of the kernel's protocol, or not authenticated."""


class InternalError(KernelError):
    """A bug of the kernel."""
