"""Find out why something can't be pickled."""

from __future__ import annotations

import pickle
import sys
from typing import Any, TextIO

import cloudpickle

import kernel


class FailureTuple:
    """Holds an object that can't be pickled, its name, and its parent."""

    def __init__(self, obj: Any, name: str, parent: Any, path: str = "") -> None:
        self.obj, self.name, self.parent, self.path = obj, name, parent, path or name

    def __repr__(self) -> str:
        return f"FailTuple({self.name} [path={self.path}, obj={self.obj!r}, parent={self.parent!r}])"


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: TextIO | None = None
) -> tuple[bool, set[FailureTuple]]:
    """Print which parts of a value can't be sent to other processes, and return whether all can, and those parts.

    What is printed goes to `print_file`, or to the standard output. The search goes as deep as it has to.
    """
    root = name or str(getattr(base_obj, "__name__", "") or repr(base_obj)[:80])
    found = kernel.unpicklable_parts(base_obj, root)
    title = f"Checking Serializability of {base_obj!r}"
    bar = "=" * min(len(title), 80)
    lines = [bar, title, bar]
    lines += [f"!!! FAIL serialization: {part}\n    {type(part.error).__name__}: {part.error}" for part in found]
    failures = {FailureTuple(part.value, _last(part.path), part.parent, part.path) for part in found}
    if found:
        shown = "\n".join(f"\t{failure}" for failure in failures)
        lines += [bar, f"Variable: \n\n{shown}\n", "was found to be non-serializable.", bar]
    _print(lines, print_file)
    return not found, failures


def dumps_debug(obj: Any, *args: Any, **kwargs: Any) -> bytes:
    """Return `cloudpickle.dumps(obj)`; where that raises, the error says which part can't be pickled."""
    try:
        return cloudpickle.dumps(obj, *args, **kwargs)  # type: ignore[no-any-return]
    except (TypeError, pickle.PicklingError) as error:
        raise type(error)(_explained(obj, error)) from error


def dump_debug(obj: Any, *args: Any, **kwargs: Any) -> None:
    """Do `cloudpickle.dump(obj, ...)`; where that raises, the error says which part can't be pickled."""
    try:
        cloudpickle.dump(obj, *args, **kwargs)
    except (TypeError, pickle.PicklingError) as error:
        raise type(error)(_explained(obj, error)) from error


def _explained(obj: Any, error: Exception) -> str:
    return "\n".join([str(error), *map(str, kernel.unpicklable_parts(obj))])


def _last(path: str) -> str:
    """Return what a part is called where it is: `lock` for `f.__globals__["lock"]`."""
    if path.endswith("]"):
        return path[path.rindex("[") + 1 : -1].strip('"')
    return path.rpartition(".")[2]


def _print(lines: list[str], file: TextIO | None) -> None:
    (file or sys.stdout).write("\n".join(lines) + "\n")
