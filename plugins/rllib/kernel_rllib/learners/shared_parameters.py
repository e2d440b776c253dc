"""Parameters that several modules have together, though each has a learner of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Learner
from kernel_rllib.nn.parameters import matches


class SharedParameters:
    """Carries parameters from learner to learner, so that these learn the same ones, one after the other."""

    def __init__(self, learners: Mapping[str, Learner], names: Sequence[str]) -> None:
        """Begin with the parameters of the first learner.

        Args:
            learners: The learners by the ids of their modules.
            names: The names of shared parameters, of groups of these, or patterns that names match.

        Raises:
            ConfigError: If a module has none of them, or has them in other shapes.
        """
        self._learners = learners
        self._places = {module_id: learner.module.table.mask(names) for module_id, learner in learners.items()}
        shapes = {module_id: _shapes(learner, names) for module_id, learner in learners.items()}
        first = next(iter(shapes))
        for module_id, found in shapes.items():
            if not found or found != shapes[first]:
                raise ConfigError(
                    f"the parameters {', '.join(names)} are to be shared by {', '.join(learners)}, but {module_id!r} "
                    f"has {found or 'none of them'}, and {first!r} has {shapes[first] or 'none'}: give the policies "
                    "models with the same layers of these names, on observations of the same shape"
                )
        self._values: list[Array] = []
        self.take_from(first)

    def give_to(self, module_id: str) -> None:
        """Let the learner of a module have the shared parameters as they are now."""
        learner = self._learners[module_id]
        vector = learner.weights.copy()
        for place, value in zip(self._places[module_id], self._values, strict=True):
            vector[place] = value
        learner.vector[...] = learner.backend.vector(vector)

    def take_from(self, module_id: str) -> None:
        """Take the shared parameters over from the learner of a module, which has learned them."""
        weights = self._learners[module_id].weights
        self._values = [np.array(weights[place]) for place in self._places[module_id]]

    def give_to_all(self) -> None:
        """Let all learners have the shared parameters as they are now."""
        for module_id in self._learners:
            self.give_to(module_id)


def _shapes(learner: Learner, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes = learner.module.table.shapes()
    return {name: tuple(shape) for name, shape in shapes.items() if any(matches(name, each) for each in names)}
