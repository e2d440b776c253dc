"""The errors of a worker's answers, as the standard library's pool raises them."""

from __future__ import annotations

from multiprocessing.pool import MaybeEncodingError, RemoteTraceback  # the very types that programs catch

import kernel
from kernel.exceptions import KernelError, SerializationError


def remote_error(error: BaseException, text: str) -> BaseException:
    """Return what a function raised, with the traceback in its worker as the cause."""
    error.__cause__ = RemoteTraceback(f'\n"""\n{text}"""')  # type: ignore[no-untyped-call]
    return error


def encoding_error(error: Exception, function: str) -> Exception:
    """Return why an answer could not be had, as MaybeEncodingError when its value can't leave the worker."""
    if isinstance(error, SerializationError):
        wrapped = MaybeEncodingError(error, f"result of {function}()")  # type: ignore[no-untyped-call]
        wrapped.__cause__ = error
        return wrapped
    return error


def sending_error(error: BaseException) -> BaseException:
    """Return why arguments could not be sent: what their own pickling raised, unless the kernel's error is one, too."""
    original = error.__context__
    if isinstance(error, SerializationError) and original is not None and not isinstance(error, type(original)):
        return original
    return error


def wait_for_end(leaving: list[kernel.ObjectRef]) -> None:
    """Wait until workers that were told to leave have gone."""
    for ref in leaving:
        try:
            kernel.get(ref)
        except KernelError:
            continue
