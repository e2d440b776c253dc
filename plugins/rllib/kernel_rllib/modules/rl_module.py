"""Modules of today's API, in torch: the class that users derive their own from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn as layers


class ValueFunctionAPI:
    """A base beside `TorchRLModule` of modules that compute values of observations."""

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Any:
        """Return the values [N] of the observations of a batch."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_values(batch, embeddings): define it")


class TorchRLModule(layers.Module):  # type: ignore[misc]  # Any where torch is not installed
    """A module of today's API: define `setup`, `_forward`, and for algorithms with a critic `compute_values`.

    One that remembers defines `get_initial_state` too. It is called with sequences of one episode each, then: `obs`
    [B, T, ...], and `state_in`, what it remembered before, [B, ...] each. Outputs and values are [B, T, ...], and
    `state_out` is like `state_in`. Shorter sequences are filled up at their ends; what it returns there is not used.

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

    def get_initial_state(self) -> Any:
        """Return what it remembers when an episode begins, arrays by names, or dicts of them; by default nothing."""
        return {}

    def _forward(self, batch: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """Return `action_dist_inputs` [N, P] for a batch with `obs`; of Q-learning, `qf_preds` [N, A].

        Values of observations may be there too, as `vf_preds` [N]: then `compute_values` is not called.
        """
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
        """Return the values [N] of the observations of a batch; by default none.

        Args:
            batch: The batch that `_forward` was given.
            embeddings: The `embeddings` that it returned, if it did.
        """
        return None
