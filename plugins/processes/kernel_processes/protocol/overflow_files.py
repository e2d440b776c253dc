"""Objects for which the store had no room: each lies in a file of this machine, which processes map to use it.

A mapping keeps its bytes, even after the file's name is gone. A reader's mapping can't be written to.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import weakref
from collections.abc import Callable

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectLostError, ObjectStoreError

_OPTIONS = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""A mapping needs no descriptor of its own, although Pythons before 3.13 always make one."""


@dataclass(frozen=True, slots=True)
class OverflowFile:
    """Locates an object in a file, as other locations do in the store."""

    path: str


class _Watch(weakref.ref):  # type: ignore[type-arg]
    """Is a weak reference to a mapping, with the function to call when the mapping is gone."""

    __slots__ = ("released",)
    released: Callable[[], None]


_watches: dict[int, _Watch] = {}


def map_writable(file: OverflowFile, size: int) -> memoryview:
    """Return the bytes of an object that is being made. Raises `ObjectStoreError` if they can't be had."""
    return memoryview(_map(file, size, os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE))


def map_readable(file: OverflowFile, size: int, released: Callable[[], None]) -> memoryview:
    """Return a read-only view of an object without a copy; call `released` once when the last view of it is gone.

    Raises `ObjectLostError` when the file is gone or damaged, `ObjectStoreError` when it can't be mapped.
    """
    mapping = _map(file, size, os.O_RDONLY, mmap.PROT_READ)
    watch = _Watch(mapping, _on_gone)
    watch.released = released
    _watches[id(watch)] = watch
    return memoryview(mapping)


def _on_gone(watch: _Watch) -> None:
    del _watches[id(watch)]
    watch.released()


def _map(file: OverflowFile, size: int, flags: int, protection: int) -> mmap.mmap:
    try:
        descriptor = os.open(file.path, flags | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size != size:
                raise ObjectLostError(f"the file {file.path}, which held an object of {size} bytes, is damaged")
            return mmap.mmap(descriptor, size, mmap.MAP_SHARED, protection, **_OPTIONS)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise ObjectLostError(
            f"the file {file.path}, which held an object of {size} bytes, is gone: something removed it; "
            "name a place that nothing else cleans up with spill_directory"
        ) from error
    except OSError as error:
        advice = "see whether this process may use it"
        if error.errno in (errno.EMFILE, errno.ENFILE):
            advice = "close files and drop views that are no longer needed, or raise the limit (`ulimit -n`)"
        elif error.errno == errno.ENOMEM:
            advice = "drop views that are no longer needed: this process may map no more memory"
        raise ObjectStoreError(
            f"the file {file.path}, which holds an object of {size} bytes, can't be mapped: {error.strerror}; {advice}"
        ) from error
