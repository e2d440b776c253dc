"""Errors for names of Ray that can't be honoured, and errors that are built-in ones in Ray as well."""

from __future__ import annotations

from kernel.exceptions import AlreadyInitializedError, OptionError, SessionEndedError, UsageError
from kernel_compat_ray.exceptions import RayError


class NotSupportedError(RayError, UsageError, NotImplementedError):
    """A name or an argument of Ray that kernel can't honour; the message says why and what to use."""


class SecondInitError(AlreadyInitializedError, RuntimeError):
    """Raised by a second ray.init(): Ray's is a RuntimeError."""


class NoClusterError(SessionEndedError, ConnectionError):
    """Raised if no cluster answers at an address: Ray's is a ConnectionError."""


class ActorClassInheritanceException(TypeError):
    """Raised if a class inherits from an actor class."""


class UnknownArgumentError(OptionError, RuntimeError):
    """Raised for an unknown argument of ray.init(): Ray's is a RuntimeError."""
