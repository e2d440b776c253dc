"""Arrays of all lanes in memory that several processes see.

The memory has no name: it is gone with the last process that holds it, however that ends. Observations have two places
in turn, so that the ones before are whole even where a process dies while it writes the next.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.errors import SpaceError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct

_ALIGNMENT = 64
"""Bytes: arrays begin at the lines of a processor's cache."""


def new_memory() -> int:
    """Return a descriptor of memory of no size yet, which children may inherit by number."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("kernel-rllib-envs", os.MFD_CLOEXEC)
    file = tempfile.TemporaryFile()  # noqa: SIM115 (its descriptor outlives it)
    descriptor = os.dup(file.fileno())
    file.close()
    return descriptor


class Slots:
    """The arrays of all lanes, in the memory of a descriptor.

    observation_space, action_space: of one lane. lanes: how many. grow: True in the process that makes the memory as
    large as is needed. Raises SpaceError for spaces whose values are Python objects.
    """

    def __init__(
        self,
        descriptor: int,
        observation_space: Space[Any],
        action_space: Space[Any],
        lanes: int,
        *,
        grow: bool = False,
    ) -> None:
        forms = {
            "obs": (nested.empty(observation_space, lanes), nested.empty(observation_space, lanes)),
            "final_obs": nested.empty(observation_space, lanes),
            "actions": nested.empty(action_space, lanes),
            "rewards": np.zeros(lanes, np.float32),
            "terminateds": np.zeros(lanes, bool),
            "truncateds": np.zeros(lanes, bool),
        }
        for name, space in (("observation_space", observation_space), ("action_space", action_space)):
            if nested.has_objects(nested.empty(space, 1)):
                raise SpaceError(
                    f"{name} is {space}, whose values have no fixed size, so they can't be in shared memory: step the "
                    "environments in this process, or in actors"
                )
        size = sum(_rounded(leaf.nbytes) for leaf in nested.leaves(forms))
        if grow:
            os.ftruncate(descriptor, size)
        memory = mmap.mmap(descriptor, size)
        placed = _place(forms, memory)
        self.obs: tuple[Struct, Struct] = placed["obs"]
        self.final_obs: Struct = placed["final_obs"]
        self.actions: Struct = placed["actions"]
        self.rewards: Array = placed["rewards"]
        self.terminateds: Array = placed["terminateds"]
        self.truncateds: Array = placed["truncateds"]


def _place(forms: Struct, memory: mmap.mmap) -> Any:
    """Return arrays of the same forms that lie one after the other in memory."""
    offset = 0

    def placed(form: Array) -> Array:
        nonlocal offset
        array: Array = np.ndarray(form.shape, form.dtype, memory, offset)
        offset += _rounded(form.nbytes)
        return array

    return nested.mapped(placed, forms)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
