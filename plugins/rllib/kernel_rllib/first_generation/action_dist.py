"""The base of distributions of actions that users write, in any library, and what such a one samples of several parts.

`model={"custom_action_dist": MyDistribution}` takes those that compute in torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gymnasium import Space


class TupleActions(NamedTuple):
    """Actions of several parts: one tensor [N, ...] for each."""

    batches: list[Any]


class ActionDistribution:
    """Distributions of actions, one for each row of inputs. Derive from it, and define its methods.

    Attributes:
        inputs: The inputs [N, P], as the model puts them out.
        model: The model.
    """

    def __init__(self, inputs: Any, model: Any = None) -> None:
        """Keep the inputs and the model."""
        self.inputs, self.model = inputs, model

    @staticmethod
    def required_model_output_shape(action_space: Space[Any], model_config: Mapping[str, Any]) -> Any:
        """Return how many inputs a row needs: what the model is told as `num_outputs`."""
        raise NotImplementedError("required_model_output_shape(action_space, model_config) is not defined: define it")

    def sample(self) -> Any:
        """Return one draw for each row: a tensor [N, ...], or a tuple of such for a space of several parts."""
        raise self._undefined("sample(self)")

    def deterministic_sample(self) -> Any:
        """Return for each row the action to take where nothing is explored."""
        raise self._undefined("deterministic_sample(self)")

    def sampled_action_logp(self) -> Any:
        """Return the log-probabilities [N] of what was sampled last."""
        raise self._undefined("sampled_action_logp(self)")

    def logp(self, x: Any) -> Any:
        """Return the log-probabilities [N] of actions: rows [N, ...] as `sample` gave them, its parts side by side."""
        raise self._undefined("logp(self, x)")

    def entropy(self) -> Any:
        """Return the entropies [N] in nats."""
        raise self._undefined("entropy(self)")

    def kl(self, other: Any) -> Any:
        """Return the divergences [N] from this distribution to another of the same class."""
        raise self._undefined("kl(self, other)")

    def multi_entropy(self) -> Any:
        """Return what `entropy` does."""
        return self.entropy()

    def multi_kl(self, other: Any) -> Any:
        """Return what `kl` does."""
        return self.kl(other)

    def _undefined(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method}: define it")
