"""Steps that agents have made elsewhere: what a policy here would have done in them is not asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Struct


@dataclass(frozen=True)
class Done:
    """The action that an agent took, and the module's outputs by name if a module chose it elsewhere."""

    action: Struct
    outputs: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, actions: Mapping[Any, Struct], outputs: Mapping[Any, Mapping[str, Any]] | None) -> dict[Any, Done]:
        """Return what agents have done, by agent."""
        return {agent: cls(action, None if outputs is None else outputs[agent]) for agent, action in actions.items()}


class LoggedStep(NamedTuple):
    """A step that a lane has made elsewhere.

    Attributes:
        number: The number of the lane.
        seen: The observation of its agent.
        done: The action that its agent took.
        owner: The numbers of its episode and of its agent.
    """

    number: int
    seen: Struct
    done: Done
    owner: tuple[int, int]


class LoggedSteps:
    """Collects such steps, so that arrays are made of many at once."""

    def __init__(self) -> None:
        """Begin without any."""
        self._steps: list[LoggedStep] = []

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._steps)

    def add(self, step: LoggedStep) -> None:
        """Take in a step."""
        self._steps.append(step)

    def take(self) -> list[LoggedStep]:
        """Return the steps since this was last asked, in order."""
        steps, self._steps = self._steps, []
        return steps


def outputs_of(steps: Sequence[LoggedStep], name: str) -> Array:
    """Return what modules put out elsewhere in N steps under a name, float32 [N, ...]."""
    return np.array([step.done.outputs[name] for step in steps if step.done.outputs is not None], np.float32)


def stacked(rows: Sequence[Struct]) -> Struct:
    """Return a struct of N rows, each array of it [N, ...]."""
    if len(rows) == 1:
        return nested.mapped(lambda value: np.asarray(value)[None], rows[0])
    first, *others = rows
    return nested.mapped(lambda *values: np.stack(values), first, *others)
