"""Modules of today's API, in torch: the class that users derive their own from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn as layers


class TorchRLModule(layers.Module):  # type: ignore[misc]  # Any where torch is not installed
    """A module of today's API: define `setup`, `_forward`, and for algorithms with a critic `compute_values`.

    Attributes:
        observation_space: The space of observations.
        action_space: The space of actions.
        model_config: The options that `RLModuleSpec` was given.
    """

    def __init__(self, observation_space: Any = None, action_space: Any = None, model_config: Any = None) -> None:
        """Keep what the module is told, and call `setup`."""
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.model_config = model_config if model_config is not None else {}
        self.setup()

    def setup(self) -> None:
        """Build the layers."""

    def _forward(self, batch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return `action_dist_inputs` [N, P] for a batch with `obs`; of Q-learning, `qf_preds` [N, A]."""
        raise NotImplementedError(f"{type(self).__name__} has no _forward(batch): define it")

    def _forward_inference(self, batch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return what acting without exploration needs; by default what `_forward` returns."""
        return self._forward(batch, **more)

    def _forward_exploration(self, batch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return what acting while training needs; by default what `_forward` returns."""
        return self._forward(batch, **more)

    def _forward_train(self, batch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return what losses need; by default what `_forward` returns."""
        return self._forward(batch, **more)

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Any:
        """Return the values [N] of the observations of a batch; by default none."""
        return None
