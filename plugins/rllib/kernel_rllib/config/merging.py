"""Merging a dict into one that is there: what is given wins, what isn't mentioned stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.search_spaces import is_search_space


def merged(there: Any, given: Mapping[Any, Any]) -> Any:
    """Return `there` with `given` merged into it, dicts inside included; neither is changed.

    A dict inside whose `type` changes is replaced: its other keys are arguments of another class.
    """
    if not isinstance(there, Mapping) or is_search_space(there) or is_search_space(given) or is_new_type(there, given):
        return dict(given)
    found = dict(there)
    for key, value in given.items():
        inside = isinstance(value, Mapping) and isinstance(found.get(key), Mapping) and type(value) is dict
        found[key] = merged(found[key], value) if inside else value
    return found


def is_new_type(there: Mapping[Any, Any], given: Mapping[Any, Any]) -> bool:
    """Return whether a dict names another class by its `type` than the one that is there."""
    return "type" in given and "type" in there and given["type"] != there["type"]
