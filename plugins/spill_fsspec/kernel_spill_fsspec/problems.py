"""The meaning of the errors of file systems: each has its own, and some name the reason only in the cause."""

from __future__ import annotations

import errno

_FULL_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("QuotaExceeded", "StorageFull", "InsufficientStorage", "InsufficientCapacity", "storageQuota", "(507)")
_FINAL_NUMBERS = (
    *_FULL_NUMBERS,
    errno.EACCES,
    errno.EINVAL,
    errno.EMSGSIZE,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOSYS,
    errno.EPERM,
    errno.EROFS,
)
_FINAL = (
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    ImportError,
    NotImplementedError,
    TypeError,
    ValueError,
)
_FINAL_NAMES = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "ParamValidationError")
"""Of libraries that are not imported here."""


def is_full(error: BaseException) -> bool:
    """Return whether there is no room left."""
    if isinstance(error, OSError) and error.errno in _FULL_NUMBERS:
        return True
    return any(word in said(error) for word in _FULL_WORDS)


def is_passing(error: BaseException) -> bool:
    """Return whether the same call may succeed in a moment."""
    if isinstance(error, _FINAL) or is_full(error):
        return False
    if isinstance(error, OSError) and error.errno in _FINAL_NUMBERS:
        return False
    return type(error).__name__ not in _FINAL_NAMES


def said(error: BaseException) -> str:
    """Return what the error and its cause say, for people."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__
    return f"{text} ({type(cause).__name__}: {cause})" if cause is not None and str(cause) not in text else text
