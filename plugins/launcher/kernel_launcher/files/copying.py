"""Copy files to a machine, or from it, through its connection."""

from __future__ import annotations

import posixpath
import shlex
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

from kernel_launcher.files.patterns import Patterns
from kernel_launcher.files.trees import read_tar, write_tar
from kernel_launcher.steps.shell_words import remote_path
from kernel_spec.errors import OptionError


class CopyTarget(Protocol):
    """A machine as copying needs it: commands that read a stream, and commands that write one."""

    def send(self, command: str) -> AbstractContextManager[IO[bytes]]:
        """Return a context in which the command's input is written."""
        ...

    def receive(self, command: str) -> AbstractContextManager[IO[bytes]]:
        """Return a context in which the command's output is read."""
        ...


def copy_mount(machine: CopyTarget, local: str, remote: str, patterns: Patterns) -> int:
    """Copy a directory's contents into the directory `remote`, or a file to the file `remote`; return how many files.

    Directories on the way are made. What is there besides stays.
    """
    word = remote_path(remote.rstrip("/") or "/")
    if Path(local).is_dir():
        with machine.send(f"mkdir -p {word} && tar -xf - -C {word} --no-same-owner") as pipe:
            return write_tar(local, patterns, pipe)
    directory, name = posixpath.split(remote)
    if not name:
        name = Path(local).name
    where = remote_path(directory) if directory else '"$HOME"'
    with machine.send(f"mkdir -p {where} && tar -xf - -C {where} --no-same-owner") as pipe:
        return write_tar(local, patterns, pipe, name)


def copy_up(machine: CopyTarget, local: str, remote: str, patterns: Patterns) -> int:
    """Copy as `rsync LOCAL HOST:REMOTE` does: a directory itself unless LOCAL ends with /, into what is a directory.

    Raises OptionError where there is nothing to copy.
    """
    contents = local.endswith("/")
    top = Path(local.rstrip("/") or "/")
    if top.is_dir():
        return copy_mount(machine, str(top), remote if contents else posixpath.join(remote, top.name), patterns)
    if not top.exists():
        raise OptionError(f"{local} is to be copied, and there is no such file or directory here")
    target, name = remote_path(remote), shlex.quote(top.name)
    move = 'cat > "$1.copied" && mv -f "$1.copied" "$1"'
    script = f'case {target} in */) mkdir -p {target};; *) mkdir -p "$(dirname {target})";; esac; '
    script += f"if [ -d {target} ]; then set -- {target}/{name}; else set -- {target}; fi; {move}"
    if top.stat().st_mode & 0o100:
        script += ' && chmod +x "$1"'
    with machine.send(script) as pipe, open(top, "rb") as file:
        while block := file.read(1 << 20):
            pipe.write(block)
    return 1


def copy_down(machine: CopyTarget, remote: str, local: str) -> int:
    """Copy as `rsync HOST:REMOTE LOCAL` does, and return how many files. Raises MachineError where there is nothing."""
    path = remote.rstrip("/") or "/"
    target = Path(local)
    if remote.endswith("/") or path in ("~", "/"):
        with machine.receive(f"tar -cf - -C {remote_path(path)} .") as pipe:
            return read_tar(pipe, target)
    directory, name = posixpath.split(path)
    rename = not (target.is_dir() or local.endswith("/")) and _is_file(machine, remote_path(path))
    where = remote_path(directory) if directory else '"$HOME"'
    with machine.receive(f"tar -cf - -C {where} {shlex.quote(name)}") as pipe:
        return read_tar(pipe, target.parent, target.name) if rename else read_tar(pipe, target)


def _is_file(machine: CopyTarget, word: str) -> bool:
    """Return whether a path there is a file."""
    with machine.receive(f"if [ -f {word} ]; then echo file; fi") as pipe:
        return pipe.read().strip() == b"file"
