"""Calls of the controller's methods."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kernel
from kernel_serve.routing.router import controller_handle, forget_controller
from kernel_spec.errors import KernelError, TaskError


def answer_to(ref: kernel.ObjectRef | list[kernel.ObjectRef]) -> Any:
    """Return the result of a task or call of Serve's own, or the results of several.

    Errors of Serve and the kernel are raised as they were, without the name of Serve's method that raised them.

    An event loop that runs in this thread stands still meanwhile, as for anything that is not awaited: a notebook, or a
    constructor that asks for a handle, wants just that, so there is no warning.
    """
    try:
        if asyncio._get_running_loop() is None:
            return kernel.get(ref)
        with ThreadPoolExecutor(1, thread_name_prefix="serve asks") as beside:
            return beside.submit(kernel.get, ref).result()
    except TaskError as error:
        if isinstance(error.cause, KernelError):
            raise error.cause.with_traceback(None) from None
        raise


def ask(method: str, *arguments: Any) -> Any:
    """Return what a method of the controller returns.

    Raises NotServingError when Serve does not run, and what the method raises as `answer_to` does.
    """
    try:
        return answer_to(getattr(controller_handle(), method).remote(*arguments))
    except kernel.exceptions.ActorDiedError:  # Another program has ended Serve since, and may have started it again.
        forget_controller()
        return answer_to(getattr(controller_handle(), method).remote(*arguments))
