"""Translate the kernel's errors to status codes of gRPC, and back."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_spec import errors
from kernel_spec.errors import KernelError, UsageError


class NotKnownError(UsageError):
    """Nothing that is known (any more) has the id or name that was asked for."""


class NotServedError(UsageError):
    """The head can't do this; another version of it may."""


class NotAllowedError(KernelError):
    """The call came without the session's token."""


CODES: Mapping[type[BaseException], str] = {
    NotKnownError: "NOT_FOUND",
    NotServedError: "UNIMPLEMENTED",
    NotAllowedError: "UNAUTHENTICATED",
    errors.ActorNotFoundError: "NOT_FOUND",
    errors.PlacementGroupNotFoundError: "NOT_FOUND",
    errors.OptionError: "INVALID_ARGUMENT",
    errors.SerializationError: "INVALID_ARGUMENT",
    errors.NameTakenError: "ALREADY_EXISTS",
    errors.PendingCallsLimitError: "RESOURCE_EXHAUSTED",
    errors.GetTimeoutError: "DEADLINE_EXCEEDED",
    errors.UsageError: "FAILED_PRECONDITION",
    errors.TaskError: "ABORTED",
    errors.TaskCancelledError: "CANCELLED",
    errors.ObjectLostError: "DATA_LOSS",
    errors.ObjectStoreFullError: "RESOURCE_EXHAUSTED",
    errors.OutOfDiskError: "RESOURCE_EXHAUSTED",
    errors.OutOfMemoryError: "RESOURCE_EXHAUSTED",
    errors.FaultError: "UNAVAILABLE",
    errors.ProtocolError: "INVALID_ARGUMENT",
    errors.KernelError: "INTERNAL",
}
"""The status code of each class and of what is one of it, as far as it has no row of its own."""


def code_of(error: BaseException) -> str:
    """Return the name of the gRPC status code of an error: that of the nearest class in `CODES`."""
    return next((CODES[one] for one in type(error).__mro__ if one in CODES), "INTERNAL")


def bases_of(error: KernelError) -> list[str]:
    """Return the names of the kernel's classes that an error is one of, besides its own, the nearest first."""
    return [one.__name__ for one in type(error).__mro__[1:] if issubclass(one, KernelError)]


def error_named(class_name: str, bases: list[str], text: str) -> KernelError:
    """Return an error of the nearest class that is known here; one of a newer head may be of another class there."""
    known = {**vars(errors), **globals()}
    for name in (class_name, *bases):
        found = known.get(name)
        if isinstance(found, type) and issubclass(found, KernelError):
            return found(text)
    return KernelError(text)
