"""Walk what is to be copied, digest it, and write it into tar streams."""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from kernel_launcher.errors import MachineError
from kernel_launcher.files.patterns import Patterns
from kernel_spec.errors import OptionError

_BLOCK = 1 << 20


def walk(top: Path, patterns: Patterns) -> Iterator[tuple[Path, str]]:
    """Yield each file, link and directory below `top`, in order, with its path within it; no special files."""
    patterns.enter(top, "")
    yield from _below(top, "", patterns)


def content_digest(local: str, patterns: Patterns) -> str:
    """Return a digest of a file's or a directory's contents, names and permissions to execute.

    Raises OptionError where there is nothing.
    """
    top = Path(local)
    _check(top)
    found = hashlib.sha256()
    for file, path in walk(top, patterns) if top.is_dir() else [(top, "")]:
        mode = file.lstat().st_mode
        found.update(f"{len(path)}:{path}:{stat.S_IFMT(mode)}:{bool(mode & 0o100)}:".encode(errors="surrogateescape"))
        if stat.S_ISLNK(mode) and path:
            found.update(os.readlink(file).encode(errors="surrogateescape"))
        elif not stat.S_ISDIR(mode):
            with open(file, "rb") as opened:
                while block := opened.read(_BLOCK):
                    found.update(block)
    return found.hexdigest()[:16]


def write_tar(local: str, patterns: Patterns, output: IO[bytes], name: str = "") -> int:
    """Write a file or directory into a tar stream, and return how many files that were.

    A directory's contents are at the top of the stream, or below `name`; a file is called `name`. Owners are not kept:
    files belong to the user there. Raises OptionError where there is nothing.
    """
    top = Path(local)
    _check(top)
    count = 0
    with tarfile.open(fileobj=output, mode="w|") as tar:
        if not top.is_dir():
            tar.add(os.path.realpath(top), name or top.name, recursive=False, filter=_plain)
            return 1
        for file, path in walk(top, patterns):
            count += not file.is_dir() or file.is_symlink()
            tar.add(file, f"{name}/{path}" if name else path, recursive=False, filter=_plain)
    return count


def read_tar(stream: IO[bytes], target: Path, rename: str = "") -> int:
    """Unpack a tar stream into a directory, and return how many files it had.

    With `rename` the top of every path is replaced by it. Raises MachineError for a path that leads out of `target`.
    """
    target.mkdir(parents=True, exist_ok=True)
    count = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                if rename:
                    _, slash, rest = member.name.removeprefix("./").partition("/")
                    member.name = f"{rename}{slash}{rest}"
                count += not member.isdir()
                if hasattr(tarfile, "data_filter"):
                    tar.extract(member, target, filter="data")
                else:
                    _check_inside(member, target)
                    tar.extract(member, target)
        while stream.read(_BLOCK):  # What fills up the last record: the program that sends it would break else.
            pass
    except tarfile.TarError as error:
        raise MachineError(f"what was sent can't be unpacked into {target}: {error}") from None
    return count


def _below(directory: Path, path: str, patterns: Patterns) -> Iterator[tuple[Path, str]]:
    for entry in sorted(os.scandir(directory), key=lambda each: each.name):
        inner = f"{path}/{entry.name}" if path else entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        special = not (is_directory or entry.is_symlink() or entry.is_file(follow_symlinks=False))
        if special or patterns.leaves_out(inner, is_directory):
            continue
        yield Path(entry.path), inner
        if is_directory:
            patterns.enter(Path(entry.path), inner)
            yield from _below(Path(entry.path), inner, patterns)


def _check(top: Path) -> None:
    if not top.exists():
        raise OptionError(f"{top} is to be copied to the cluster, and there is no such file or directory here")


def _check_inside(member: tarfile.TarInfo, target: Path) -> None:
    """Older Pythons have no filter: refuse what leads out of the target, and anything but files, directories, links."""
    root = os.path.realpath(target)
    places = [os.path.realpath(target / member.name)]
    if member.issym():
        places.append(os.path.realpath((target / member.name).parent / member.linkname))
    if member.islnk():
        places.append(os.path.realpath(target / member.linkname))
    if member.isdev() or any(os.path.commonpath([root, place]) != root for place in places):
        raise MachineError(f"{member.name!r} leads out of {target}, and is not unpacked")


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
