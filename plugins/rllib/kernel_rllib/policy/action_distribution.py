"""Distributions of actions as losses and notebooks use them: `dist_class(inputs, model)`, then `logp`, `sample`, ...

What is computed is that of `kernel_rllib.distributions`: in numpy for arrays, in torch for tensors, with gradients.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.ops import Ops


class ActionDistribution:
    """One distribution for each row of inputs."""

    distribution: ClassVar[Distribution]
    stream: ClassVar[np.random.Generator]

    def __init__(self, inputs: Any, model: Any = None) -> None:
        """Take the inputs [N, P], as a model puts them out; the model itself is not needed."""
        self.inputs = inputs
        self.model = model
        self._nn = ops_of(inputs)
        self._sampled: Any = None

    def sample(self) -> Any:
        """Return one draw for each row."""
        noise = self.distribution.noise
        shape = (len(self.inputs), noise.width)
        draw = self.stream.standard_normal if noise.kind == "normal" else self.stream.random
        self._sampled = self.distribution.sample(self._nn, self.inputs, draw(shape, np.float32))
        return self._sampled

    def deterministic_sample(self) -> Any:
        """Return for each row the action to take where nothing is explored."""
        self._sampled = self.distribution.mode(self._nn, self.inputs)
        return self._sampled

    def logp(self, actions: Any) -> Any:
        """Return the log-probabilities [N] of actions, as rows of numbers counted from 0."""
        given = actions if hasattr(actions, "dtype") else np.asarray(actions)
        return self.distribution.log_prob(self._nn, self.inputs, given)

    def sampled_action_logp(self) -> Any:
        """Return the log-probabilities [N] of what was sampled last."""
        if self._sampled is None:
            self.sample()
        return self.logp(self._sampled)

    def entropy(self) -> Any:
        """Return the entropies [N] in nats."""
        return self.distribution.entropy(self._nn, self.inputs)

    def multi_entropy(self) -> Any:
        """Return the entropies [N], as `entropy` does."""
        return self.entropy()

    def kl(self, other: ActionDistribution) -> Any:
        """Return the Kullback-Leibler divergences [N] from this distribution to another of the same kind."""
        return self.distribution.kl(self._nn, self.inputs, other.inputs)

    def multi_kl(self, other: ActionDistribution) -> Any:
        """Return the divergences [N], as `kl` does."""
        return self.kl(other)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.inputs)} rows>"


def distribution_class(distribution: Distribution, stream: np.random.Generator) -> type[ActionDistribution]:
    """Return the class of action distributions that a distribution is behind; draws come from `stream`."""
    return type(
        type(distribution).__name__,
        (ActionDistribution,),
        {"distribution": distribution, "stream": stream, "__doc__": type(distribution).__doc__},
    )


def ops_of(values: Any) -> Ops:
    """Return the operations that compute with values: those of torch for a tensor, else numpy's."""
    if type(values).__module__.partition(".")[0] == "torch":
        from kernel_rllib.nn.torch_ops import TorchOps  # Imported here: with a tensor, torch is installed.

        return TorchOps(values.dtype, values.device)
    return NumpyOps()
