"""The contract of a module: what runners ask before they act, and what learners differentiate.

A module holds no weights. It says which parameters it has, and computes outputs from parameters and inputs by the
operations that it is given: plain numpy where a runner acts, a tape or torch where a learner learns. So one text serves
both, and a copy of its weights is a copy of one vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.products import ROW_BLOCK

if TYPE_CHECKING:
    from typing_extensions import Self

Parameters: TypeAlias = Mapping[str, Any]
"""Names of parameters, and their values as the operations in use have them."""
Inputs: TypeAlias = Mapping[str, Any]
Outputs: TypeAlias = dict[str, Any]
Initializer: TypeAlias = "Callable[[tuple[int, ...], np.random.Generator], Array]"


@dataclass(frozen=True)
class Parameter:
    """Describes one array of weights: its name, its shape, and its initializer."""

    name: str
    shape: tuple[int, ...]
    initializer: Initializer


class Module(ABC):
    """A network of an agent: outputs as a pure function of parameters and inputs.

    Inputs and outputs are mappings of the names of columns to arrays [N, ...], N rows of any lanes and steps.
    """

    row_block = ROW_BLOCK
    """Runners fill rows up to a multiple of this many, so that a row is computed by the same instructions always."""
    made_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    """The arguments that it was made with: a checkpoint keeps them, so that it can be made again."""

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Make one, and remember of what."""
        made = super().__new__(cls)
        made.made_with = (arguments, named)
        return made

    @abstractmethod
    def parameters(self) -> Sequence[Parameter]:
        """Return all its parameters, always in the same order."""

    @abstractmethod
    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return all that losses need for these rows."""

    def explore(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what an exploration needs to choose actions while training; by default all that `train` returns."""
        return self.train(nn, parameters, inputs)

    def infer(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return what choosing the best known action needs; by default all that `explore` returns."""
        return self.explore(nn, parameters, inputs)

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return what is to be small in place of an algorithm's loss, and metrics; by default that loss, and none.

        Args:
            nn: The operations.
            parameters: The parameters.
            total: The loss of the algorithm, one number.
            batch: The batch that it was computed from.
        """
        return total, {}

    def state(self) -> Mapping[str, tuple[int, ...]]:
        """Return what it remembers from step to step, as shapes of one lane by their names."""
        return {}

    def initial_state(self) -> Mapping[str, Array]:
        """Return what it remembers when an episode begins, of one lane, by the names of `state`; by default zeros."""
        return {name: np.zeros(shape, np.float32) for name, shape in self.state().items()}

    @property
    def learns_in(self) -> str | None:
        """Return the name of the one backend that it can learn in; None where any will do."""
        return None

    @property
    def noise_width(self) -> int:
        """Return how many standard normal numbers a row needs to explore; they come as the input `noise`."""
        return 0

    @cached_property
    def table(self) -> ParameterTable:
        """The place of each parameter in the one vector of all."""
        return ParameterTable({parameter.name: parameter.shape for parameter in self.parameters()})

    def initial(self, stream: np.random.Generator) -> Array:
        """Return the vector of parameters that training begins with, drawn from `stream`: float32 [size]."""
        vector = np.empty(self.table.size, np.float32)
        views = self.table.views(vector)
        for parameter in self.parameters():
            views[parameter.name][...] = parameter.initializer(parameter.shape, stream)
        return vector
