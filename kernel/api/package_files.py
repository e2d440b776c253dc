"""Find and pack the files of a directory for a runtime environment; their sizes are checked before any is read."""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO

from kernel.api.ignore_rules import Rules, is_ignored
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import RuntimeEnvError

MAXIMUM_BYTES = 512 << 20
IGNORE_FILE = ".gitignore"
_NEVER = {".git", "__pycache__", ".venv", ".mypy_cache", ".pytest_cache"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
_IN_MEMORY_BYTES = 16 << 20
"""Maximum size of an archive that is kept in memory; larger ones are written to a temporary file."""
_AT_A_TIME = 1 << 20
_LEAVE_OUT = f"leave it out with runtime_env['excludes'] or in a {IGNORE_FILE}"
_NAMED = 3
"""Number of the largest parts that an error names."""


@dataclass(frozen=True, slots=True)
class File:
    """A file to pack: its name in the archive, its path, its size in bytes and its permission bits."""

    name: str
    path: str
    size: int
    mode: int


def pack(path: str, prefix: str, excludes: Sequence[str]) -> IO[bytes]:
    """Return an open zip file of a file or directory, whose bytes depend on names and contents only.

    See `find_files` for the arguments. Raises RuntimeEnvError when the files have more than `MAXIMUM_BYTES`, before any
    is read, and for a file that can't be read or whose name is not UTF-8.
    """
    import tempfile  # both are imported only where there is something to pack
    import zipfile

    files = find_files(path, prefix, excludes)
    archive = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115 - the caller closes it
    left = MAXIMUM_BYTES
    try:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
            for file in files:
                info = zipfile.ZipInfo(file.name, _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = file.mode << 16
                with open(file.path, "rb") as source, package.open(info, "w") as target:
                    while data := source.read(_AT_A_TIME):
                        left -= len(data)
                        if left < 0:
                            raise RuntimeEnvError(f"{path} can't be packed: {file.path} grows while it is read")
                        target.write(data)
    except OSError as error:
        archive.close()
        raise RuntimeEnvError(f"{path} can't be packed: {_describe(error)}") from error
    except BaseException:
        archive.close()
        raise
    return archive  # type: ignore[return-value]


def find_files(path: str, prefix: str, excludes: Sequence[str]) -> list[File]:
    """Return the file at `path`, or the files of the directory at `path`, whose names then begin with `prefix`.

    Files that a `.gitignore` in the directory or below excludes are left out. So are files that the lines in `excludes`
    exclude; they are read like a `.gitignore`, and take precedence. Links are followed. Raises RuntimeEnvError as
    `pack` does.
    """
    files: list[File] = []
    sizes: Counter[str] = Counter()
    total = 0
    try:
        for file in _walk_from(path, excludes):
            files.append(file)
            sizes[file.name.partition("/")[0]] += file.size
            total += file.size
            if total > MAXIMUM_BYTES:
                raise _too_large(path, sizes)
        if prefix and os.path.isdir(path):
            files = [File(f"{prefix}/{file.name}", file.path, file.size, file.mode) for file in files]
    except OSError as error:
        raise RuntimeEnvError(f"{path} can't be packed: {_describe(error)}") from error
    return files


def _walk_from(path: str, excludes: Sequence[str]) -> Iterator[File]:
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        return _walk(path, "", [], Rules(excludes), {_identity(status): path})
    return iter([_file(os.path.basename(path), path, status)])


def _walk(
    directory: str, inside: str, layers: list[Rules], last: Rules, around: dict[tuple[int, int], str]
) -> Iterator[File]:
    """Yield the files of a directory. `inside` is its path from the top; `around` has it and the directories above."""
    with os.scandir(directory) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    own = next((entry for entry in entries if entry.name == IGNORE_FILE and os.path.isfile(entry.path)), None)
    layers = [*layers, _rules(own, inside)] if own is not None else layers
    for entry in entries:
        name = f"{inside}/{entry.name}" if inside else entry.name
        status = _status(entry)
        mode = 0 if isinstance(status, OSError) else status.st_mode
        if entry.name in _NEVER or is_ignored([*layers, last], name, stat.S_ISDIR(mode)):
            continue
        if isinstance(status, OSError):
            if status.errno not in (errno.ENOENT, errno.ELOOP):  # a link to nothing
                raise status
        elif stat.S_ISREG(mode):
            yield _file(name, entry.path, status)
        elif stat.S_ISDIR(mode):
            if above := around.get(_identity(status)):
                raise RuntimeEnvError(
                    f"{entry.path} can't be packed: it is a link to {above}, which contains the link; {_LEAVE_OUT}"
                )
            yield from _walk(entry.path, name, layers, last, {**around, _identity(status): entry.path})


def _status(entry: os.DirEntry[str]) -> os.stat_result | OSError:
    try:
        return entry.stat()
    except OSError as error:
        return error


def _rules(entry: os.DirEntry[str], inside: str) -> Rules:
    with open(entry.path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        return Rules(file.read().split("\n"), inside)


def _file(name: str, path: str, status: os.stat_result) -> File:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RuntimeEnvError(
            f"{os.fsencode(path)!r} can't be packed: the name is not UTF-8, and would not be the same on other "
            f"machines; rename it, or {_LEAVE_OUT}"
        ) from None
    return File(name, path, status.st_size, status.st_mode & 0o777)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _too_large(path: str, sizes: Counter[str]) -> RuntimeEnvError:
    parts = ", ".join(f"{name} ({size >> 20} MB)" for name, size in sizes.most_common(_NAMED))
    return RuntimeEnvError(
        f"{path} can't be packed: its files have more than {MAXIMUM_BYTES >> 20} MB, found so far mostly in {parts}; "
        f"{_LEAVE_OUT}, and put large data where every node can read it"
    )


def _describe(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
