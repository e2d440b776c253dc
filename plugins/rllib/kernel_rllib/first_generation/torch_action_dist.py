"""Distributions of actions over tensors that users derive their own from, or use inside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import Space

from kernel_rllib.first_generation.action_dist import ActionDistribution


class TorchDistributionWrapper(ActionDistribution):
    """Wraps `self.dist`, a distribution of torch. A class of one's own sets it, or defines the methods itself.

    Attributes:
        dist: A `torch.distributions.Distribution` over N rows.
        last_sample: The last sample.
    """

    dist: Any
    last_sample: Any

    def __init__(self, inputs: Any, model: Any = None) -> None:
        """Keep the inputs, as a tensor, and the model."""
        super().__init__(inputs if isinstance(inputs, torch.Tensor) else torch.as_tensor(np.asarray(inputs)), model)
        self.last_sample = None

    def sample(self) -> Any:
        """Return one draw for each row."""
        self.last_sample = self.dist.sample()
        return self.last_sample

    def sampled_action_logp(self) -> Any:
        """Return the log-probabilities [N] of what was sampled last; sample first if nothing was."""
        return self.logp(self.sample() if self.last_sample is None else self.last_sample)

    def logp(self, actions: Any) -> Any:
        """Return the log-probabilities [N] of actions."""
        return self.dist.log_prob(actions)

    def entropy(self) -> Any:
        """Return the entropies [N]."""
        return self.dist.entropy()

    def kl(self, other: Any) -> Any:
        """Return the divergences [N] from this distribution to another."""
        return torch.distributions.kl.kl_divergence(self.dist, other.dist)


class TorchCategorical(TorchDistributionWrapper):
    """One of several actions, by logits."""

    def __init__(self, inputs: Any, model: Any = None) -> None:
        """Take logits [N, A]."""
        super().__init__(inputs, model)
        self.dist = torch.distributions.Categorical(logits=self.inputs)

    @staticmethod
    def required_model_output_shape(action_space: Space[Any], model_config: Mapping[str, Any]) -> Any:
        """Return the number of actions."""
        return int(action_space.n)  # type: ignore[attr-defined]

    def deterministic_sample(self) -> Any:
        """Return the likeliest action of each row."""
        self.last_sample = self.inputs.argmax(dim=1)
        return self.last_sample


class TorchMultiCategorical(TorchDistributionWrapper):
    """Several actions at once, each by logits of its own, independent of one another."""

    def __init__(self, inputs: Any, model: Any = None, input_lens: Sequence[int] = ()) -> None:
        """Take logits [N, P], and how many of them each action has."""
        super().__init__(inputs, model)
        parts = self.inputs.split([int(length) for length in input_lens], dim=1)
        self.cats: list[Any] = [torch.distributions.Categorical(logits=part) for part in parts]

    @staticmethod
    def required_model_output_shape(action_space: Space[Any], model_config: Mapping[str, Any]) -> Any:
        """Return the number of actions of all components together."""
        return int(np.sum(action_space.nvec))  # type: ignore[attr-defined]

    def sample(self) -> Any:
        """Return one draw [N, k] for each row."""
        self.last_sample = torch.stack([each.sample() for each in self.cats], dim=1)
        return self.last_sample

    def deterministic_sample(self) -> Any:
        """Return the likeliest action [N, k] of each row."""
        self.last_sample = torch.stack([each.logits.argmax(dim=1) for each in self.cats], dim=1)
        return self.last_sample

    def logp(self, actions: Any) -> Any:
        """Return the log-probabilities [N] of actions [N, k]."""
        chosen = zip(self.cats, actions.unbind(dim=1), strict=True)
        return torch.stack([each.log_prob(action) for each, action in chosen], dim=1).sum(dim=1)

    def entropy(self) -> Any:
        """Return the entropies [N]."""
        return torch.stack([each.entropy() for each in self.cats], dim=1).sum(dim=1)

    def kl(self, other: Any) -> Any:
        """Return the divergences [N]."""
        pairs = zip(self.cats, other.cats, strict=True)
        return torch.stack([torch.distributions.kl.kl_divergence(*pair) for pair in pairs], dim=1).sum(dim=1)


class TorchDiagGaussian(TorchDistributionWrapper):
    """Normal numbers, independent of one another: inputs are means [N, d], then logarithms of deviations [N, d]."""

    def __init__(self, inputs: Any, model: Any = None) -> None:
        """Take means and logarithms of deviations [N, 2 d]."""
        super().__init__(inputs, model)
        mean, log_std = self.inputs.chunk(2, dim=1)
        self.dist = torch.distributions.Independent(torch.distributions.Normal(mean, log_std.exp()), 1)

    @staticmethod
    def required_model_output_shape(action_space: Space[Any], model_config: Mapping[str, Any]) -> Any:
        """Return two for each number of an action."""
        return 2 * int(np.prod(action_space.shape or (1,)))

    def deterministic_sample(self) -> Any:
        """Return the means [N, d]."""
        self.last_sample = self.dist.mean
        return self.last_sample
