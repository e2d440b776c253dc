"""Values of settings as JSON has them, so that they come back as what they were.

Classes and functions are written as their dotted paths, spaces and arrays as what they are made of. What has no such
form is pickled beside the JSON, and only unpickled where a reader says that it trusts the writer: a pickle can run any
program when it is read.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import numpy as np
from gymnasium import spaces

from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.config.settings import Settings
from kernel_rllib.errors import CheckpointError

LoadObject = Callable[[int], Any]

_MARK = "@"
"""The first character of the keys that say how a value is read."""


class Writer:
    """Writes values, and gathers what has to be pickled."""

    def __init__(self) -> None:
        self.pickles: list[bytes] = []
        """The pickles of values that have no other form."""

    def __call__(self, value: Any) -> Any:
        """Return a value made of dicts, lists, texts, numbers, True, False and None."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list):
            return [self(each) for each in value]
        if isinstance(value, np.generic):
            return value.item()
        for kind, (name, parts) in _PARTS.items():
            if type(value) is kind:
                return {_MARK + name: [self(part) for part in parts(value)]}
        if isinstance(value, Settings):
            return self._settings(value)
        path = path_of(value)
        if path is not None and not path.startswith("__main__."):
            return {_MARK + "path": path}
        if dataclasses.is_dataclass(value) and not isinstance(value, type) and path_of(type(value)) is not None:
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
            return {_MARK + "made": path_of(type(value)), "by": self(fields)}
        return self._pickled(value, path)

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        if all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return {key: self(each) for key, each in value.items()}
        return {_MARK + "items": [[self(key), self(each)] for key, each in value.items()]}

    def _settings(self, value: Settings) -> Any:
        values = {name: self(each) for name, each in value.set_values().items()}
        if hasattr(value, "build_algo"):
            return {_MARK + "config": path_of(type(value)), "generation": value.generation, "values": values}
        return values

    def _pickled(self, value: Any, path: str | None) -> Any:
        """Return what stands for an object; its path too, if it is of the program that runs (`__main__`)."""
        written: dict[str, Any] = {_MARK + "object": len(self.pickles), "shown": repr(value)[:200]}
        if path is not None:
            written["path"] = path
        try:
            self.pickles.append(cloudpickle.dumps(value))
        except Exception as error:  # A user's object may raise anything.
            written |= {_MARK + "object": None, "why": f"{type(error).__name__}: {error}"}
        return written


class Reader:
    """Reads what `Writer` wrote."""

    def __init__(self, load: LoadObject) -> None:
        """Read; `load` returns a pickled object by its number, or raises where it is not to be unpickled."""
        self._load = load

    def __call__(self, written: Any) -> Any:
        """Return the value.

        Raises:
            CheckpointError: If it names what is not there, or can't be read.
        """
        if isinstance(written, list):
            return [self(each) for each in written]
        if not isinstance(written, dict):
            return written
        mark = next(iter(written), "")
        if not mark.startswith(_MARK):
            return {key: self(each) for key, each in written.items()}
        read = getattr(self, f"_read_{mark[1:]}", None)
        if read is not None:
            return read(written)
        if mark[1:] not in _MAKERS:
            raise CheckpointError(f"there is no kind of values {mark!r}: a later release wrote it. Install that one.")
        return _MAKERS[mark[1:]](*(self(part) for part in written[mark]))

    def _read_items(self, written: dict[str, Any]) -> Any:
        return {_hashable(self(key)): self(value) for key, value in written["@items"]}

    def _read_path(self, written: dict[str, Any]) -> Any:
        return found_at(written["@path"])

    def _read_made(self, written: dict[str, Any]) -> Any:
        return found_at(written["@made"])(**self(written["by"]))

    def _read_config(self, written: dict[str, Any]) -> Any:
        config = found_at(written["@config"])
        return config.from_state({
            "class": config, "generation": written["generation"], "settings": self(written["values"])
        })  # fmt: skip

    def _read_object(self, written: dict[str, Any]) -> Any:
        if "path" in written:
            try:
                return found_at(written["path"])
            except CheckpointError:  # it is another program that runs now
                pass
        if written["@object"] is None:
            raise CheckpointError(f"{written['shown']} could not be pickled when it was saved ({written['why']})")
        return self._load(written["@object"])


def path_of(value: Any) -> str | None:
    """Return the dotted path by which a class or a function is found, or None."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None


def found_at(path: str) -> Any:
    """Return what is at a dotted path.

    Raises:
        CheckpointError: If nothing is.
    """
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:count])
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and not f"{module}.".startswith(f"{error.name}."):
                raise CheckpointError(f"{path} can't be imported: {error}. Install what its module needs.") from error
            continue
        try:
            for part in parts[count:]:
                found = getattr(found, part)
        except AttributeError:
            break
        return found
    raise CheckpointError(
        f"there is no {path} here, which was there when the checkpoint was saved: put its module where Python finds it "
        "(PYTHONPATH)"
    )


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def _array(values: Any, dtype: str, shape: list[int]) -> Any:
    return np.array(values, dtype).reshape(shape)


def _box(low: Any, high: Any, shape: tuple[int, ...], dtype: str) -> spaces.Box:
    return spaces.Box(low, high, shape, np.dtype(dtype).type)


_PARTS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    tuple: ("tuple", list),
    set: ("set", lambda value: sorted(value, key=str)),
    frozenset: ("frozenset", lambda value: sorted(value, key=str)),
    np.ndarray: ("array", lambda value: (value.ravel().tolist(), value.dtype.str, list(value.shape))),
    PolicySpec: ("PolicySpec", tuple),
    spaces.Box: ("Box", lambda space: (space.low, space.high, space.shape, space.dtype.str)),
    spaces.Discrete: ("Discrete", lambda space: (int(space.n), int(space.start))),
    spaces.MultiDiscrete: ("MultiDiscrete", lambda space: (space.nvec,)),
    spaces.MultiBinary: ("MultiBinary", lambda space: (space.n,)),
    spaces.Tuple: ("Tuple", lambda space: (list(space.spaces),)),
    spaces.Dict: ("Dict", lambda space: (dict(space.spaces),)),
}
"""The kinds of values that are made of parts, and the parts of one."""

_MAKERS: dict[str, Callable[..., Any]] = {
    "tuple": lambda *parts: parts,
    "set": lambda *parts: set(parts),
    "frozenset": lambda *parts: frozenset(parts),
    "array": _array,
    "PolicySpec": PolicySpec,
    "Box": _box,
    "Discrete": lambda n, start: spaces.Discrete(n, start=start),
    "MultiDiscrete": spaces.MultiDiscrete,
    "MultiBinary": spaces.MultiBinary,
    "Tuple": spaces.Tuple,
    "Dict": spaces.Dict,
}
"""The functions that make a value from its parts again."""
