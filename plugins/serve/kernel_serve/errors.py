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
    ├── RequestCancelledError   its caller has gone, or cancelled it
    └── UserCodeError           the deployment raised what can't be pickled; the message has its traceback
"""

from __future__ import annotations

from kernel_spec.errors import KernelError, TaskError, UsageError
from kernel_spec.errors import MetricError as MetricError


class ServeError(KernelError):
    """Base of all errors of Serve."""


class DeploymentError(ServeError, UsageError, ValueError):
    """A deployment, an application or a setting is not as it must be."""


class NotServingError(ServeError, UsageError):
    """Serve does not run in this session, or has nothing of that name."""


class DeployFailedError(ServeError):
    """An application could not be made to run."""


class RequestError(ServeError):
    """One request was not served."""


class BackPressureError(RequestError):
    """The deployment has as many waiting requests as it may have (`max_queued_requests`)."""


class DeploymentUnavailableError(RequestError):
    """No replica can take the request now, or its replica died and the request can't be repeated."""


class ReplicasDiedError(RequestError):
    """Two replicas died while they had the request. It is not sent to a third: it may be what ends them."""


class RequestTimeoutError(RequestError, TimeoutError):
    """The request was not answered within its time limit."""


class RequestCancelledError(RequestError):
    """The caller of the request has gone, or has cancelled it."""


class UserCodeError(RequestError):
    """The deployment raised an exception that can't be pickled; the message has its traceback."""


def original(error: BaseException) -> BaseException:
    """Return the exception that another process raised, if `error` carries one that could be unpickled; else `error`.

    It is for what Serve's own tasks and actors raise: the name of their method would not help users.
    """
    cause = error.cause if isinstance(error, TaskError) else None
    return cause if isinstance(cause, BaseException) else error


def said_by(error: BaseException) -> str:
    """Return the message of an error, without the name of the task or method that raised it in another process."""
    raised = original(error)
    return raised.message if isinstance(raised, TaskError) else str(raised)
