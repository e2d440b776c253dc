"""The shared memory itself: one extent of bytes behind a file descriptor that has no name.

On Linux it is a memfd: not bound by the size of /dev/shm, gone with the last process that holds it, and sealed
against resizing so that no client can pull the memory from under another. Elsewhere, or where a directory is
asked for (a mount of huge pages, say), it is a file that is unlinked as soon as it is open.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os

from kernel_spec.errors import ObjectStoreError

MAX_BLOCK_BYTES = 1 << 30
"""The largest huge page; a file system that claims a larger block is not believed."""
F_ADD_SEALS = 1033
SEAL_SHRINK_AND_GROW = 0x0001 | 0x0002 | 0x0004
"""F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW of Linux; `fcntl` has them only in some builds of Python."""


class Arena:
    """Holds `capacity` bytes that objects may use, inside a file of `bytes` (rounded up to whole pages)."""

    def __init__(self, descriptor: int, capacity: int, bytes: int) -> None:
        self.descriptor = descriptor
        self.capacity = capacity
        self.bytes = bytes

    def close(self) -> None:
        """Give the descriptor back; the memory goes with the last mapping of it. Calling it again does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def open_arena(capacity: int, directory: str | None = None) -> Arena:
    """Make an arena of `capacity` bytes, in memory or, when `directory` is given, in a file there.

    Raises `ObjectStoreError` when the machine has less memory in all, or the directory is missing or too small.
    """
    if capacity < 1:
        raise ObjectStoreError(f"object_store_memory is {capacity} bytes; it must be 1 or more")
    if directory is not None:
        return _open_file(capacity, directory, "object_store_directory")
    if hasattr(os, "memfd_create"):
        return _open_memfd(capacity)
    import tempfile  # Here and below, only for a store in a file.

    return _open_file(capacity, tempfile.gettempdir(), "the directory for temporary files")


def map_arena(descriptor: int, bytes: int, access: int) -> mmap.mmap:
    """Map all of an arena. Raises `ObjectStoreError` where this process may not have so much more address space."""
    try:
        return mmap.mmap(descriptor, bytes, mmap.MAP_SHARED, access)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise ObjectStoreError(
            f"process {os.getpid()} can't map the {bytes} bytes of the object store, which each process maps twice"
            f"{_address_limit()}; start the session with a smaller object_store_memory"
        ) from error


def _address_limit() -> str:
    """Return in words what limits the address space of this process, if that is known."""
    import resource  # Only an error needs it.

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return "" if limit == resource.RLIM_INFINITY else f": `ulimit -v` gives it {limit} bytes of address space"


def total_memory() -> int | None:
    """Return how many bytes of memory this process could ever have: the machine's or its cgroup's limit."""
    limits = []
    with contextlib.suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            with open(path) as file:
                limits.append(int(file.read()))
    return min(limits, default=None)


def _open_memfd(capacity: int) -> Arena:
    total = total_memory()
    if total is not None and capacity > total:
        raise ObjectStoreError(
            f"object_store_memory is {capacity} bytes, but this machine (or container) has {total} bytes of memory "
            f"in all; ask for less, or name a directory on disk with object_store_directory"
        )
    size = _round_up(capacity, mmap.PAGESIZE)
    descriptor = os.memfd_create("kernel-object-store", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        # A system that can't seal still shares memory: the seal only guards against faults.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, F_ADD_SEALS, SEAL_SHRINK_AND_GROW)
    except OSError as error:
        os.close(descriptor)
        raise ObjectStoreError(f"can't make {capacity} bytes of shared memory: {error}; ask for less") from error
    return Arena(descriptor, capacity, size)


def _open_file(capacity: int, directory: str, meaning: str) -> Arena:
    if not os.path.isdir(directory):
        raise ObjectStoreError(f"{meaning} {directory!r} is not a directory; create or mount it, or name another")
    import tempfile

    size = _round_up(capacity, _block_bytes(directory))
    try:
        descriptor, path = tempfile.mkstemp(prefix="kernel-object-store-", dir=directory)
    except OSError as error:
        raise ObjectStoreError(f"can't make a file in {meaning} {directory!r}: {error.strerror}") from error
    try:
        os.unlink(path)
        _reserve(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise ObjectStoreError(_reserve_message(error, capacity, directory, meaning)) from error
    return Arena(descriptor, capacity, size)


def _reserve(descriptor: int, size: int) -> None:
    """Give the file all its blocks now: a full file system shows here, and not as a SIGBUS in some worker."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _reserve_message(error: OSError, capacity: int, directory: str, meaning: str) -> str:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM):
        return f"can't reserve {capacity} bytes in {meaning} {directory!r}: {error.strerror}"
    with contextlib.suppress(OSError):
        status = os.statvfs(directory)
        room = f" ({status.f_bavail * status.f_frsize} bytes are free)"
        return (
            f"{meaning} {directory!r} is too small for object_store_memory of {capacity} bytes{room}; "
            f"lower object_store_memory, or name a larger directory"
        )
    return f"{meaning} {directory!r} is too small for object_store_memory of {capacity} bytes; name a larger one"


def _block_bytes(directory: str) -> int:
    """Return what the file's size must be a multiple of: the huge page on a hugetlbfs, else a page."""
    block = os.statvfs(directory).f_bsize
    power_of_two = block > 0 and block & (block - 1) == 0
    return block if power_of_two and mmap.PAGESIZE < block <= MAX_BLOCK_BYTES else mmap.PAGESIZE


def _round_up(size: int, block: int) -> int:
    return (size + block - 1) // block * block
