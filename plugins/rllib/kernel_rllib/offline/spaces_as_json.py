"""Spaces as Minari writes them into the metadata of its datasets: JSON with the type and the bounds of each part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.errors import DataError


def space_of(text: str | Mapping[str, Any]) -> spaces.Space[Any]:
    """Return the space that a piece of JSON describes.

    Raises:
        DataError: If it is of a type that has no rows of numbers, or describes no space.
    """
    try:
        given = json.loads(text) if isinstance(text, str) else text
        found: spaces.Space[Any] = _MAKERS[given["type"]](given)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"the metadata of a dataset describes a space as {text!r:.200}, and there is none of this kind here: "
            f"{', '.join(_MAKERS)} are read"
        ) from error
    return found


def _box(given: Mapping[str, Any]) -> spaces.Box:
    low, high = (np.asarray(given[name], given["dtype"]) for name in ("low", "high"))
    return spaces.Box(low, high, tuple(given["shape"]), np.dtype(given["dtype"]).type)


def _discrete(given: Mapping[str, Any]) -> spaces.Discrete:
    return spaces.Discrete(int(given["n"]), start=int(given.get("start", 0)))


def _multi_discrete(given: Mapping[str, Any]) -> spaces.MultiDiscrete:
    nvec = np.asarray(given["nvec"], np.int64)
    return spaces.MultiDiscrete(nvec, start=np.asarray(given.get("start", np.zeros_like(nvec)), np.int64))


def _multi_binary(given: Mapping[str, Any]) -> spaces.MultiBinary:
    return spaces.MultiBinary(given["n"])


def _dict(given: Mapping[str, Any]) -> spaces.Dict:
    return spaces.Dict({name: space_of(part) for name, part in given["subspaces"].items()})


def _tuple(given: Mapping[str, Any]) -> spaces.Tuple[Any]:
    return spaces.Tuple([space_of(part) for part in given["subspaces"]])


_MAKERS: dict[str, Any] = {
    "Box": _box,
    "Discrete": _discrete,
    "MultiDiscrete": _multi_discrete,
    "MultiBinary": _multi_binary,
    "Dict": _dict,
    "Tuple": _tuple,
}
