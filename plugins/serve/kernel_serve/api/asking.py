"""Asking the controller."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kernel
from kernel_serve.errors import ServeError
from kernel_serve.routing.router import controller_handle, forget_controller


def answer_to(ref: kernel.ObjectRef) -> Any:
    """Return the result of a call of the controller.

    An event loop that runs in this thread stands still meanwhile, as it does for anything that is not awaited: in a
    notebook, or in a constructor that asks for a handle, that is what is wanted, and nobody is warned.
    """
    if asyncio._get_running_loop() is None:
        return kernel.get(ref)
    with ThreadPoolExecutor(1, thread_name_prefix="serve asks") as beside:
        return beside.submit(kernel.get, ref).result()


def ask(method: str, *arguments: Any) -> Any:
    """Return what a method of the controller returns.

    Raises NotServingError when Serve does not run. What the method raises of Serve's own errors is raised as it is:
    where in the controller it came from tells the caller nothing.
    """
    try:
        try:
            return answer_to(getattr(controller_handle(), method).remote(*arguments))
        except kernel.exceptions.ActorDiedError:  # another program has ended Serve since, and perhaps begun it again
            forget_controller()
            return answer_to(getattr(controller_handle(), method).remote(*arguments))
    except ServeError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, ServeError):
            raise cause.with_traceback(None) from None
        raise
