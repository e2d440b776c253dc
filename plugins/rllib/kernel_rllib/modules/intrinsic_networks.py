"""Networks that know what they have seen: their errors are large where an agent has rarely been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_rllib.data import columns
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.distributions.multi_categorical import MultiCategorical
from kernel_rllib.modules.actor_critic import ActorCriticOptions, hidden_body
from kernel_rllib.modules.layers import Body, Dense, torch_dense, torch_stack
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn import initializers
from kernel_rllib.nn.ops import Ops

FORWARD_ERRORS, INVERSE_LOSSES = "forward_errors", "inverse_losses"
"""Outputs [N] of a `CuriosityNetwork`: the errors of foreseen features, and the losses of guessed actions."""
DISTILLATION_ERRORS = "distillation_errors"
"""The output [N] of a `DistillationNetwork`: how far the learned features are from the fixed ones."""


class FeatureNetwork:
    """Computes features of observations: the hidden layers of a model, and a linear layer on them."""

    def __init__(self, name: str, shape: Sequence[int], width: int, options: ActorCriticOptions) -> None:
        """Build it.

        Args:
            name: The prefix of the names of its parameters.
            shape: The shape of one observation.
            width: The number of features.
            options: The options of its hidden layers.
        """
        self.body: Body = hidden_body(name, tuple(shape), options)
        self._head = Dense(f"{name}/features", self.body.outputs, width, None, initializers.orthogonal(1.0))

    def parameters(self) -> list[Parameter]:
        """Return the parameters of all its layers."""
        return [*self.body.parameters(), *self._head.parameters()]

    def __call__(self, nn: Ops, parameters: Parameters, observations: Any) -> Any:
        """Return features [N, width] of observations [N, ...]."""
        return self._head(nn, parameters, self.body(nn, parameters, nn.constant(observations)))


@dataclass(frozen=True)
class CuriosityOptions:
    """The sizes of a `CuriosityNetwork`.

    Attributes:
        features: The number of features of observations.
        hidden: The layers below the features.
        inverse: The widths and the activation of the layers that guess actions.
        forward: The widths and the activation of the layers that foresee features.
    """

    features: int
    hidden: ActorCriticOptions
    inverse: tuple[tuple[int, ...], str]
    forward: tuple[tuple[int, ...], str]


class CuriosityNetwork(Module):
    """The intrinsic curiosity module of Pathak et al. 2017 (arXiv 1705.05363), section 2.

    Features of observations are learned by guessing the action between two of them, so they hold what actions change.
    What follows is foreseen among these features: where that fails, something is new.
    """

    def __init__(self, observation: Sequence[int], actions: Distribution, options: CuriosityOptions) -> None:
        """Build it.

        Args:
            observation: The shape of one observation.
            actions: The usual distribution of the actions, by which they are guessed.
            options: The sizes of its layers.
        """
        self.actions = actions
        self._is_real = isinstance(actions, Gaussian)
        guesses = actions.action_size if self._is_real else actions.parameter_size
        self.features = FeatureNetwork("features", observation, options.features, options.hidden)
        widths, activation = options.inverse
        self._inverse = torch_stack("inverse", 2 * options.features, widths, activation)
        self._guess = torch_dense("inverse/action", self._inverse.outputs, guesses, None)
        widths, activation = options.forward
        self._forward = torch_stack("forward", options.features + self._code_width(), widths, activation)
        self._foreseen = torch_dense("forward/features", self._forward.outputs, options.features, None)

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of its three networks."""
        parts = self.features, self._inverse, self._guess, self._forward, self._foreseen
        return [parameter for part in parts for parameter in part.parameters()]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return the errors of both guesses for steps: of observations, actions, and the observations that follow."""
        before = self.features(nn, parameters, inputs[columns.OBS])
        after = self.features(nn, parameters, inputs[columns.NEXT_OBS])
        actions = nn.constant(inputs[columns.ACTIONS])
        guess = self._guess(nn, parameters, self._inverse(nn, parameters, nn.concat([before, after])))
        given = nn.concat([before, self._code(nn, actions)])
        foreseen = self._foreseen(nn, parameters, self._forward(nn, parameters, given))
        return {
            FORWARD_ERRORS: 0.5 * nn.sum(nn.square(foreseen - after), axis=-1),  # equation 5
            INVERSE_LOSSES: self._inverse_losses(nn, guess, actions),
        }

    def _inverse_losses(self, nn: Ops, guess: Any, actions: Any) -> Any:
        """Return how wrong guesses of actions are [N]: squared errors of real ones, else -log p (equation 3)."""
        if self._is_real:
            return 0.5 * nn.sum(nn.square(guess - actions), axis=-1)
        return -self.actions.log_prob(nn, guess, actions)

    def _code_width(self) -> int:
        is_discrete = isinstance(self.actions, (Categorical, MultiCategorical))
        return self.actions.parameter_size if is_discrete else self.actions.action_size

    def _code(self, nn: Ops, actions: Any) -> Any:
        """Return actions as numbers [N, width]: choices as ones among zeros."""
        if isinstance(self.actions, Categorical):
            return nn.one_hot(actions, self.actions.parameter_size)
        if isinstance(self.actions, MultiCategorical):
            parts = [nn.one_hot(actions[:, place], size) for place, size in enumerate(self.actions.sizes)]
            return nn.concat(parts)
        return nn.constant(actions)


class DistillationNetwork(Module):
    """The networks of Burda et al. 2018 (arXiv 1810.12894), section 2.2: one is fixed, and another learns to equal it.

    Beside them is the value of intrinsic rewards, where these have returns of their own (section 2.3).
    """

    def __init__(self, observation: Sequence[int], width: int, hidden: ActorCriticOptions, *, values: bool) -> None:
        """Build it.

        Args:
            observation: The shape of one observation.
            width: The number of features.
            hidden: The layers below the features.
            values: Whether there are values.
        """
        self._fixed = FeatureNetwork("fixed", observation, width, hidden)
        self._learned = FeatureNetwork("predictor", observation, width, hidden)
        self._value = FeatureNetwork("value", observation, 1, hidden) if values else None
        self.features = self._learned

    def parameters(self) -> Sequence[Parameter]:
        """Return the parameters of all its networks; those of the fixed one come first."""
        values = self._value.parameters() if self._value else []
        return [*self._fixed.parameters(), *self._learned.parameters(), *values]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return how far both are apart for the normalised observations `new_obs`, the mean over features [N]."""
        fixed = nn.stop_gradient(self._fixed(nn, parameters, inputs[columns.NEXT_OBS]))
        learned = self._learned(nn, parameters, inputs[columns.NEXT_OBS])
        return {DISTILLATION_ERRORS: nn.mean(nn.square(learned - fixed), axis=-1)}

    def values(self, nn: Ops, parameters: Parameters, observations: Any) -> Any:
        """Return the values [N] of observations [N, ...], of those that return intrinsic rewards."""
        assert self._value is not None
        return nn.squeeze(self._value(nn, parameters, observations), 1)
