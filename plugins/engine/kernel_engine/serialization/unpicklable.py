"""Find out why a value can't leave its process: the exact path to the culprit, and advice.

The search goes breadth first through everything that pickle would visit, so that the path found is a shortest one. A
path is written as the Python expression that reaches the culprit, `config["logger"].handlers[0].lock`; variables that a
function closes over are written by name, `train.__closure__["lock"]`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel.runtime.critical_sections import critical
from kernel_engine.serialization.pickled_parts import attempt, parts_of
from kernel_engine.serialization.pickling_hints import pickling_hint, stands_for_its_parts
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import SerializationError

if TYPE_CHECKING:
    from kernel_engine.serialization.value_pickler import ReducerSource

_OBJECT_LIMIT = 20_000
_SECONDS_LIMIT = 1.0
_CULPRIT_LIMIT = 3
_TEXT_LIMIT = 300


@dataclass
class UnpicklablePart:
    """Something that can't leave its process: `path` is the Python that gets to it, `parent` what has it."""

    value: Any
    path: str
    error: Exception
    parent: Any = None

    def __str__(self) -> str:
        return f"{self.path} is {_description(self)}"


@critical
def explain(
    value: Any, root: str, error: Exception, *, name: str = "value", serializer: ReducerSource | None = None
) -> SerializationError:
    """Return the error to raise for `value`, which pickle refused with `error`.

    `root` is what its user calls it ("return value of f()"), `name` what paths begin with. `serializer` is the
    `ValueSerializer` that refused it, for its reducers. At most six lines; takes a second at most.
    """
    if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
        text = f"can't pickle the {root}: it is nested too deeply for pickle, or contains itself through a __reduce__."
        return SerializationError(text + "\nSend it as a flat structure: nodes that name each other by index.")
    culprits = find_culprits(value, name, serializer)
    if not culprits:
        return SerializationError(f"can't pickle the {root}: pickling it raised {_shown_error(error)}")
    first = culprits[0]
    subject = "it" if first.path == name else first.path
    lines = [f"can't pickle the {root}: {subject} is {_description(first)}"]
    remedy = pickling_hint(first.value)
    if remedy:
        lines.append(remedy)
    if len(culprits) > 1:
        lines.append(f"The same goes for {' and '.join(culprit.path for culprit in culprits[1:])}.")
    return SerializationError("\n".join(lines))


@critical
def explain_call(
    function_name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Exception,
    *,
    parameters: Sequence[str] = (),
    serializer: ReducerSource | None = None,
) -> SerializationError:
    """Return the error for a call whose arguments pickle refused, naming the argument.

    `parameters` are the names of the function's positional parameters, as far as they are known.
    """
    named = {(parameters[i] if i < len(parameters) else f"args[{i}]"): value for i, value in enumerate(args)}
    for name, value in {**named, **kwargs}.items():
        refused = attempt(value, serializer)
        if refused is not None:
            shown = f"argument {name!r}" if name.isidentifier() else f"positional argument {name[5:-1]}"
            return explain(value, f"{shown} of {function_name}()", refused, name=name, serializer=serializer)
    return explain((args, kwargs), f"arguments of {function_name}()", error, name="arguments", serializer=serializer)


def find_culprits(value: Any, name: str = "value", serializer: ReducerSource | None = None) -> list[UnpicklablePart]:
    """Return at most three parts of `value` that can't be pickled whatever they contain, nearest first."""
    deadline = time.monotonic() + _SECONDS_LIMIT
    queue: deque[tuple[str, Any, Any]] = deque([(name, value, None)])
    # References to visited objects keep their ids from being used again.
    seen: dict[int, Any] = {id(value): value}
    culprits: list[UnpicklablePart] = []
    while queue and len(culprits) < _CULPRIT_LIMIT and len(seen) < _OBJECT_LIMIT and time.monotonic() < deadline:
        path, part, parent = queue.popleft()
        if stands_for_its_parts(part) and (refused := attempt(part, serializer)) is not None:
            culprits.append(UnpicklablePart(part, path, refused, parent))
            continue
        try:
            children = parts_of(part, path, serializer)
        except Exception as error:
            culprits.append(UnpicklablePart(part, path, error, parent))
            continue
        for child_path, child in children:
            if id(child) not in seen:
                seen[id(child)] = child
                queue.append((child_path, child, part))
    return culprits


def _description(culprit: UnpicklablePart) -> str:
    """Say what it is and why it stays."""
    cls = type(culprit.value)
    shown = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    article = "an" if shown.lstrip("_")[:1].lower() in "aeiou" else "a"
    for method in ("__reduce_ex__", "__reduce__", "__getstate__"):
        own = getattr(cls, method, None)
        if own is not None and hasattr(own, "__code__") and not isinstance(culprit.error, (TypeError, RecursionError)):
            return f"{article} {shown}, and its {method}() raised {_shown_error(culprit.error)}"
    if isinstance(culprit.value, type) or hasattr(culprit.value, "__code__"):
        return f"{culprit.value!r}, which can't be found under its own name: {_shown_error(culprit.error)}"
    return f"{article} {shown}, which can't leave its process."


def _shown_error(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_TEXT_LIMIT]}"
