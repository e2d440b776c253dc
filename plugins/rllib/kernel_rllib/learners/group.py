"""The learners of a run, one for each module, and the one vector in which the parameters of all go to runners."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, UnknownPolicyError
from kernel_rllib.learners.learner import Learner, Metrics
from kernel_rllib.nearest import did_you_mean


class LearnerGroup(Mapping[str, Learner]):
    """Learners by the ids of their modules."""

    def __init__(self, learners: Mapping[str, Learner]) -> None:
        """Take the learners; their order is that of parameters in `vector`."""
        self._learners = dict(learners)
        self._changes = 0

    def __getitem__(self, module_id: str) -> Learner:
        """Return the learner of a policy, by its id. Raises UnknownPolicyError, a KeyError, if there is none."""
        if module_id not in self._learners:
            raise UnknownPolicyError(
                f"there is no policy {module_id!r}{did_you_mean(str(module_id), self)}; there are {', '.join(self)}"
            )
        return self._learners[module_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._learners)

    def __len__(self) -> int:
        return len(self._learners)

    @property
    def vector(self) -> Array:
        """Return the parameters of all modules, one after another: float32 [size]; it may change with an update."""
        parts = [learner.weights for learner in self._learners.values()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def version(self) -> int:
        """Return a number that grows with each change of any parameters."""
        return self._changes + sum(learner.version for learner in self._learners.values())

    def update(self, batches: Mapping[str, Batch], timestep: int = 0) -> dict[str, Metrics]:
        """Let the learner of each module that has a batch make its steps; return what their losses report."""
        return {module_id: self[module_id].update(batch, timestep) for module_id, batch in batches.items()}

    def weights(self, module_ids: Iterable[str] | None = None) -> dict[str, Array]:
        """Return copies of the parameters by module, of those in `module_ids` or of all."""
        return {module_id: self[module_id].weights.copy() for module_id in module_ids or self}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Take these parameters, by module; what optimizers remember stays.

        Raises:
            UnknownPolicyError: If there is no such module.
            ConfigError: If it has another number of parameters.
        """
        for module_id, vector in weights.items():
            learner, given = self[module_id], np.asarray(vector, np.float32)
            if given.shape != learner.weights.shape:
                raise ConfigError(
                    f"weights of the module {module_id!r} have the shape {list(given.shape)}, but it has "
                    f"{learner.weights.size} parameters in one vector; take those that get_weights returned"
                )
            learner.vector[...] = learner.backend.vector(given)
            learner.version += 1

    def replace(self, learners: Mapping[str, Learner]) -> None:
        """Have these learners from now on; their order is that of parameters in `vector`. The version grows."""
        before = self.version
        self._learners = dict(learners)
        self._changes = before + 1 - sum(learner.version for learner in learners.values())

    def state(self) -> dict[str, Any]:
        """Return all that learning needs to go on elsewhere, by module."""
        return {module_id: learner.state() for module_id, learner in self._learners.items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of these modules and perhaps of others."""
        for module_id, learner in self._learners.items():
            learner.set_state(state[module_id])
