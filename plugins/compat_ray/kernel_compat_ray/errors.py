"""Errors for names of Ray that can't be honoured, and errors that are built-in ones in Ray as well."""

from __future__ import annotations

from kernel.exceptions import AlreadyInitializedError, OptionError, SessionEndedError, UsageError
from kernel_compat_ray.exceptions import RayError


class NotSupportedError(RayError, UsageError, NotImplementedError):
    """A name or an argument of Ray that kernel can't honour; the message says why and what to use."""


class SecondInitError(AlreadyInitializedError, RuntimeError):
    """A second ray.init(): Ray's is a RuntimeError."""


class NoClusterError(SessionEndedError, ConnectionError):
    """No cluster answers at an address: Ray's is a ConnectionError."""


class ActorClassInheritanceException(TypeError):
    """A class inherits from an actor class."""


class UnknownArgumentError(OptionError, RuntimeError):
    """An argument of ray.init() that there is not: Ray's is a RuntimeError."""
