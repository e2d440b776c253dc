"""What programs import from Ray Tune beside the search itself: helpers for dicts and resources."""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from kernel_compat_ray.pickling import inspect_serializability

FunctionT = TypeVar("FunctionT")


def function(func: FunctionT) -> FunctionT:
    """Return the function itself: one in a configuration needs no mark."""
    return func


def flatten_dict(
    dt: Mapping[str, Any], delimiter: str = "/", prevent_delimiter: bool = False, flatten_list: bool = False
) -> dict[str, Any]:
    """Return a dict of one level: `{"a": {"b": 1}}` gives `{"a/b": 1}`; with `flatten_list` lists as well.

    With `prevent_delimiter` a key that has the delimiter in it raises ValueError.
    """
    flat: dict[str, Any] = {}
    for key, value in dt.items():
        if prevent_delimiter and delimiter in key:
            raise ValueError(f"key {key!r} has the delimiter {delimiter!r} in it: give another delimiter")
        if flatten_list and isinstance(value, (list, tuple)) and value:
            value = {str(number): each for number, each in enumerate(value)}
        if isinstance(value, Mapping) and value:
            inner = flatten_dict(value, delimiter, prevent_delimiter, flatten_list)
            flat.update((f"{key}{delimiter}{name}", leaf) for name, leaf in inner.items())
        else:
            flat[key] = value
    return flat


def unflattened_lookup(flat_key: str, lookup: Any, delimiter: str = "/", **kwargs: Any) -> Any:
    """Return what a path such as `a/0/b` leads to, `default` where it is given and there is nothing, else KeyError."""
    if flat_key in lookup:
        return lookup[flat_key]
    found = lookup
    for key in flat_key.split(delimiter):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, Sequence) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        elif "default" in kwargs:
            return kwargs["default"]
        else:
            raise KeyError(key)
    return found


def merge_dicts(d1: Mapping[str, Any], d2: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the first with what the second has, dicts in dicts merged as well."""
    merged = copy.deepcopy(dict(d1))
    for key, value in d2.items():
        known = merged.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_dicts(known, value) if both else value  # type: ignore[arg-type]
    return merged


def deep_update(
    original: dict[str, Any],
    new_dict: Mapping[str, Any],
    new_keys_allowed: bool = False,
    allow_new_subkey_list: Sequence[str] | None = None,
    override_all_if_type_changes: Sequence[str] | None = None,
    override_all_key_list: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Put the second dict's values into the first, dicts in dicts as well, and return it.

    A key that the first does not have raises KeyError, unless `new_keys_allowed`; below the keys of
    `allow_new_subkey_list` new ones are allowed. A dict under one of `override_all_key_list` is replaced as a whole,
    and one of `override_all_if_type_changes`, too, where its `type` changes.
    """
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}; known are {', '.join(map(str, original))}")
        known = original.get(key)
        whole = not isinstance(known, dict) or not isinstance(value, Mapping) or key in (override_all_key_list or ())
        if not whole and key in (override_all_if_type_changes or ()):
            whole = value.get("type", known.get("type")) != known.get("type")
        if whole:
            original[key] = value
        else:
            deep_update(known, value, new_keys_allowed or key in (allow_new_subkey_list or ()))
    return original


class warn_if_slow:
    """A context manager that warns when what is inside takes longer than `threshold` seconds."""

    def __init__(
        self, name: str, threshold: float | None = None, message: str | None = None, disable: bool = False
    ) -> None:
        self._name, self._threshold, self._disabled = name, 0.5 if threshold is None else threshold, disable
        self._message = message or "the `{name}` operation took {duration:.3f} s, which may be a performance bottleneck"
        self.too_slow = False

    def __enter__(self) -> warn_if_slow:
        self._began = time.monotonic()
        return self

    def __exit__(self, *exception: object) -> None:
        duration = time.monotonic() - self._began
        self.too_slow = duration > self._threshold
        if self.too_slow and not self._disabled:
            warnings.warn(self._message.format(name=self._name, duration=duration), RuntimeWarning, stacklevel=2)


def json_to_resources(data: str | Mapping[str, Any] | None) -> Any:
    """Return resources such as `{"cpu": 1}`, or the JSON of that, as a `PlacementGroupFactory`."""
    found = json.loads(data) if isinstance(data, str) else data
    return None if found is None else resource_dict_to_pg_factory(found)


def date_str() -> str:
    """Return the time as it is in names of directories."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")


def diagnose_serialization(trainable: Any) -> bool | set[str]:
    """Return True if a trainable can be sent to other processes, otherwise the reasons why not."""
    can_be_sent, reasons = inspect_serializability(trainable)
    return can_be_sent or reasons


def resource_dict_to_pg_factory(spec: Mapping[str, float] | None = None) -> Any:
    """Return resources such as `{"cpu": 1, "gpu": 0.5}` as a `PlacementGroupFactory`."""
    from kernel.runs import PlacementGroupFactory  # here: the library is loaded when it is used
    from kernel.runs.resources import make_request

    request = make_request(spec)
    return PlacementGroupFactory(request.bundles(), request.strategy)
