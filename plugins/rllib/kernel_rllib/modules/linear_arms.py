"""The module of linear bandits: of each arm the expected reward, and how unsure that is, linear in features.

Its parameters are no weights that a gradient moves: they are the posterior that `learners.linear_posterior` keeps, in
the numbers of those that act.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.flatten import flat_size

SPREAD = "spread"
"""The output [N, arms, features] whose length, along the last axis, is the deviation of an arm's expected reward."""
ITEM, USER = "item", "user"
"""The keys of observations in which arms have features."""


@dataclass(frozen=True)
class ArmFeatures:
    """The columns of the arms' features in a flat observation [width].

    Attributes:
        arms: The number of arms.
        width: The width of an observation.
        item: The columns of the arms' vectors; None: arms have none, and a model each.
        user: The columns of the vector of the user whom the arms are for; None if there is none.
    """

    arms: int
    width: int
    item: tuple[int, int] | None = None
    user: tuple[int, int] | None = None

    @classmethod
    def of(cls, space: spaces.Space[Any], arms: int, width: int) -> ArmFeatures:
        """Return where the features of arms are in what is observed.

        Args:
            space: The space of observations. In a Dict, `item` is a Box [arms, features], and `user`, if there is one,
                a vector of numbers or, as a Discrete, one-hot.
            arms: The number of arms.
            width: The width of a flat observation.

        Raises:
            ModuleError: If it is a Dict without `item`, or `item` does not have a row for each arm.
        """
        if not isinstance(space, spaces.Dict):
            return cls(arms, width)
        items = space.spaces.get(ITEM)
        if not isinstance(items, spaces.Box) or len(items.shape) != 2 or items.shape[0] != arms:
            found = "there is none" if items is None else f"it is {items}"
            raise ModuleError(
                f"arms are told apart by observations[{ITEM!r}], a Box of one row of features for each of the {arms} "
                f"actions, and {found}. Where each arm is to have a model of its own, observe a Box in place of a Dict"
            )
        places, start = {}, 0
        for name, part in space.spaces.items():
            places[name] = (start, start + flat_size(part))
            start += flat_size(part)
        return cls(arms, width, places[ITEM], places.get(USER))

    @property
    def models(self) -> int:
        """The number of models: one for each arm, or one for all."""
        return self.arms if self.item is None else 1

    @property
    def size(self) -> int:
        """The number of features of a model."""
        if self.item is None:
            return self.width
        each = (self.item[1] - self.item[0]) // self.arms
        return each if self.user is None else each * (self.user[1] - self.user[0])

    def of_arms(self, obs: Array) -> Array:
        """Return the features of all arms [N, arms, size] for observations [N, width].

        With a user, they are the products of each number of the user with each of the item (arXiv:1003.0146, section
        5.2.2). Of one-hot users that is a model for each user.
        """
        if self.item is None:
            return np.broadcast_to(obs[:, None], (len(obs), self.arms, self.width))
        items = obs[:, slice(*self.item)].reshape(len(obs), self.arms, -1)
        if self.user is None:
            return items
        users = obs[:, slice(*self.user)]
        return (users[:, None, :, None] * items[:, :, None, :]).reshape(len(obs), self.arms, -1)

    def of_pulled(self, obs: Array, actions: Array) -> tuple[Array, Array]:
        """Return the models [N] that learn of pulled arms, and the features of these arms [N, size]."""
        if self.item is None:
            return actions, obs
        return np.zeros_like(actions), self.of_arms(obs)[np.arange(len(obs)), actions]


class LinearArms(QModule):
    """Computes the expected rewards of arms, and their uncertainty, by the posteriors of linear models."""

    def __init__(self, features: ArmFeatures, lambda_: float = 1.0) -> None:
        """Make it.

        Args:
            features: The positions of the features of arms in observations.
            lambda_: The precision of the prior.
        """
        self.features, self.lambda_ = features, lambda_

    def parameters(self) -> Sequence[Parameter]:
        """Return the mean weights of models, and the roots of their covariances, side by side."""
        models, size = self.features.models, self.features.size

        def roots(shape: tuple[int, ...], stream: np.random.Generator) -> Array:
            return np.tile(np.eye(size, dtype=np.float32) / np.float32(np.sqrt(self.lambda_)), (1, models))

        return [
            Parameter("means", (size, models), initializers.zeros()),
            Parameter("roots", (size, models * size), roots),
        ]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` [N, arms] and `spread` [N, arms, size]."""
        features, obs = self.features, nn.to_numpy(inputs[columns.OBS])
        shape = (len(obs), features.arms, features.size)
        if features.item is not None:
            obs = features.of_arms(obs).reshape(-1, features.size)
        rows = nn.constant(np.ascontiguousarray(obs))
        return {
            columns.Q_VALUES: nn.reshape(nn.matmul(rows, parameters["means"]), shape[:2]),
            SPREAD: nn.reshape(nn.matmul(rows, parameters["roots"]), shape),
        }

    @property
    def learns_in(self) -> str | None:
        """Return `"numpy"`: what it learns is computed in float64, whatever the library of other algorithms."""
        return "numpy"
