"""Read `CUDA_VISIBLE_DEVICES` as CUDA reads it."""

from __future__ import annotations

from collections.abc import Mapping

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible_names(environment: Mapping[str, str]) -> list[str] | None:
    """Return the devices that the variable names, in order and each once; None when it is not set.

    A name is an index, a UUID or the beginning of one (`GPU-...`), or a MIG instance (`MIG-...`). Like CUDA, it stops
    at the first thing that is none of these, so that an empty variable and `-1` name nothing.
    """
    value = environment.get(VISIBLE)
    if value is None:
        return None
    names: list[str] = []
    for part in value.split(","):
        name = part.strip()
        if not (name.isdecimal() or name.startswith(("GPU-", "MIG-"))):
            break
        if name not in names:
            names.append(name)
    return names
