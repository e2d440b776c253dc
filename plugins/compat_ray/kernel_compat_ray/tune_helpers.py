"""What programs import from Ray Tune beside the search itself: helpers for dicts and resources."""

from __future__ import annotations

import copy
import time
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


def date_str() -> str:
    """Return the time as it is in names of directories."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")


def diagnose_serialization(trainable: Any) -> bool | set[str]:
    """Return True if a trainable can be sent to other processes, otherwise the reasons why not."""
    can_be_sent, reasons = inspect_serializability(trainable)
    return can_be_sent or reasons


def resource_dict_to_pg_factory(spec: Mapping[str, float] | None = None) -> Any:
    """Return resources such as `{"cpu": 1, "gpu": 0.5}` as a `PlacementGroupFactory`."""
    from kernel.tune import PlacementGroupFactory  # here: the library is loaded when it is used
    from kernel.tune.execution.resources import make_request

    request = make_request(spec)
    return PlacementGroupFactory(request.bundles(), request.strategy)
