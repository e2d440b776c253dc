"""The module of a policy as programs ask for it: called with its parameters of now."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.checkpoints.modules import SavedModule
from kernel_rllib.learners.learner import Learner
from kernel_rllib.modules.module import Parameters


class ModuleView(SavedModule):
    """A module that acts with the latest parameters of its learner. Other attributes are those of the module itself."""

    def __init__(self, learner: Learner) -> None:
        """Show the module of this learner."""
        self.module = learner.module
        self._learner = learner

    @property
    def _parameters(self) -> Parameters:  # type: ignore[override]
        return self._learner.module.table.views(np.asarray(self._learner.weights))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "module":
            raise AttributeError(name)
        return getattr(self.module, name)
