"""The errors of this library; each is also one of kernel's.

ServeError                      (KernelError)
├── DeploymentError             a deployment can't be what it was declared to be (also ValueError)
├── NotServingError             Serve does not run, or has no application, deployment or endpoint of that name
├── DeployFailedError           an application could not be made to run; the message ends with the user's traceback
└── RequestError                one request was not served
    ├── BackPressureError       too many requests wait for the deployment already: 503, with Retry-After
    ├── DeploymentUnavailableError  nothing can serve it now, or what served it died: 503
    ├── ReplicasDiedError       two replicas died while they had it, so it is not sent to a third: 500
    ├── RequestTimeoutError     it took longer than it may (also TimeoutError): 408 or 504
    ├── RequestCancelledError   whoever asked is gone, or cancelled it
    └── UserCodeError           the deployment raised what can't travel; the message has its traceback
"""

from __future__ import annotations

from kernel_spec.errors import KernelError, TaskError, UsageError
from kernel_spec.errors import MetricError as MetricError


class ServeError(KernelError):
    """Everything below."""


class DeploymentError(ServeError, UsageError, ValueError):
    """A deployment, an application or a setting is not what was expected."""


class NotServingError(ServeError, UsageError):
    """Serve does not run, or there is nothing of that name in it."""


class DeployFailedError(ServeError):
    """An application could not be made to run."""


class RequestError(ServeError):
    """One request was not served."""


class BackPressureError(RequestError):
    """As many requests wait for the deployment as may (`max_queued_requests`)."""


class DeploymentUnavailableError(RequestError):
    """Nothing can serve the request now, or what served it died and it can't be repeated."""


class ReplicasDiedError(RequestError):
    """Two replicas died while they had the request, which is not sent to a third: it may be what ends them."""


class RequestTimeoutError(RequestError, TimeoutError):
    """The request was not answered in the time it has."""


class RequestCancelledError(RequestError):
    """Whoever asked is gone, or has cancelled the request."""


class UserCodeError(RequestError):
    """The deployment raised something that can't travel; the message has its traceback."""


def original(error: BaseException) -> BaseException:
    """Return the exception that was raised in another process, if `error` came from there and it did too, or `error`.

    For what Serve's own tasks and actors raise: which of their methods it was tells nobody anything.
    """
    cause = error.cause if isinstance(error, TaskError) else None
    return cause if isinstance(cause, BaseException) else error


def said_by(error: BaseException) -> str:
    """Return what an error says, without the name of the task or method that raised it in another process."""
    raised = original(error)
    return raised.message if isinstance(raised, TaskError) else str(raised)
