"""Give a worker an interpreter of its own: the forked process begins anew as a program of that interpreter."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from kernel_engine.tasks.variables import expand
from kernel_processes.system.processes import command_of
from kernel_processes.system.thread_limits import ThreadLimits

_PROGRAM = "kernel_processes.worker.own_program"


def needs_own(python: str, modules: Sequence[str]) -> bool:
    """Return whether a worker must run the interpreter `python`, "" for none, rather than go on as the fork it is.

    `modules` are the top-level modules of its environment: with none of them imported yet, a fork does as well.
    """
    return bool(python) and (not modules or any(module in sys.modules for module in modules))


def begin_anew(worker: dict[str, Any], session: dict[str, Any]) -> NoReturn:
    """Run the worker's interpreter in this process, which keeps its id and its output, and has its variables already.

    Raises OSError when that interpreter can't be run.
    """
    ThreadLimits(worker["variables"].keys() | worker["env_vars"].keys())  # This undoes the settings of the template.
    environment = {**os.environ, **worker["variables"]}
    environment.update(expand(worker["env_vars"], environment))
    environment["PYTHONPATH"] = os.pathsep.join(without_library([*worker["path"], *sys.path]))
    inherited = {name: value for name, value in session.items() if name != "prepared"}
    descriptor = os.memfd_create("kernel-worker")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(pickle.dumps(({**worker, "variables": {}, "env_vars": {}, "python": ""}, inherited)))
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    _, *arguments = command_of(_PROGRAM, str(descriptor))
    os.execve(worker["python"], [worker["python"], *arguments], environment)


def without_library(paths: Iterable[str]) -> list[str]:
    """Return `paths`, each once, without this interpreter's own library: another one has its own."""
    library = os.path.dirname(os.__file__)
    parts = (library, os.path.join(library, "lib-dynload"))
    own = [path for path in paths if path and path not in parts and not path.endswith(".zip")]
    return list(dict.fromkeys(own))
