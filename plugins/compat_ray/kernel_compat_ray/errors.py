"""What is raised where Ray's names can't be honoured, or where Ray raises a built-in error as well."""

from __future__ import annotations

from kernel.exceptions import (
    ActorDiedError,
    AlreadyInitializedError,
    KernelError,
    SessionEndedError,
    UsageError,
)


class NotSupportedError(UsageError, NotImplementedError):
    """A name or an argument of Ray that kernel can't honour; the message says why and what to use."""


class SecondInitError(AlreadyInitializedError, RuntimeError):
    """A second ray.init(): Ray's is a RuntimeError."""


class NoClusterError(SessionEndedError, ConnectionError):
    """No cluster answers at an address: Ray's is a ConnectionError."""


class AsyncioActorExit(ActorDiedError):
    """Never raised here: an actor's exit is an ActorDiedError, whatever kind of actor it was."""


class CrossLanguageError(KernelError):
    """Never raised here: there is one language."""


class ObjectRefStreamEndOfStreamError(KernelError):
    """Never raised here: the end of a stream is StopIteration."""


class RayChannelError(KernelError):
    """Never raised here: there are no channels."""


class RayChannelTimeoutError(RayChannelError, TimeoutError):
    """Never raised here: there are no channels."""
