"""Curiosity: steps whose outcome an agent did not foresee are rewarded (Pathak et al. 2017, arXiv 1705.05363)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Learner, Loss, Metrics
from kernel_rllib.modules.intrinsic_networks import FORWARD_ERRORS, INVERSE_LOSSES
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.training.intrinsic_reward import IntrinsicReward, Streams, flat


@dataclass(frozen=True)
class CuriositySettings:
    """What stands beside `type` in `exploration_config`, under the names of RLlib.

    Attributes:
        feature_dim: The number of features of an observation.
        feature_net_config: Options of the model that the features' layers have in place of those of the policy.
        inverse_net_hiddens: The widths of the layers that guess actions.
        inverse_net_activation: The activation of these layers.
        forward_net_hiddens: The widths of the layers that foresee features.
        forward_net_activation: The activation of these layers.
        beta: The share of the loss of foreseeing in the whole loss, from 0 to 1; the rest is the loss of guessing.
        eta: The factor that makes rewards of errors.
        lr: The learning rate of these networks, or its schedule over env steps.
        sub_exploration: The `exploration_config` by which actions are chosen; None for the algorithm's own.
        minibatch_size: The largest number of steps that are learned from at once.
    """

    feature_dim: int = 288
    feature_net_config: Any = None
    inverse_net_hiddens: Any = (256,)
    inverse_net_activation: Any = "relu"
    forward_net_hiddens: Any = (256,)
    forward_net_activation: Any = "relu"
    beta: float = 0.2
    eta: float = 1.0
    lr: Any = 1e-3
    sub_exploration: Any = None
    minibatch_size: int = 256


class Curiosity(IntrinsicReward):
    """Rewards steps by how wrong their foreseen features were: r = eta / 2 |foreseen - features|^2 (equation 6)."""

    def __init__(self, learner: Learner, stream: Streams, settings: CuriositySettings) -> None:
        """Learn a `CuriosityNetwork` with this learner, as settings say."""
        super().__init__(learner, stream, settings.minibatch_size)
        self._eta = settings.eta

    def rewards_of(self, fragment: Fragment, following: Array) -> Array:
        """Return the errors of foreseeing, times eta [T, L]."""
        found = fragment.columns
        inputs = {name: flat(found[name]) for name in (columns.OBS, columns.ACTIONS)}
        inputs[columns.NEXT_OBS] = flat(following)
        module = self.learner.module
        errors: Array = self.learner.evaluate(lambda nn, p: module.train(nn, p, inputs)[FORWARD_ERRORS])
        return (self._eta * errors).reshape(fragment.shape).astype(found[columns.REWARDS].dtype)

    def give(self, fragment: Fragment, rewards: Array) -> dict[str, Array]:
        """Add intrinsic rewards to those of the environment."""
        fragment.columns[columns.REWARDS] = fragment.columns[columns.REWARDS] + rewards
        return {}


def curiosity_loss(beta: float) -> Loss:
    """Return the loss (1 - beta) L_inverse + beta L_forward, means over steps (equation 7)."""

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        outputs = module.train(nn, parameters, batch)
        foreseen, guessed = nn.mean(outputs[FORWARD_ERRORS]), nn.mean(outputs[INVERSE_LOSSES])
        total = (1.0 - beta) * guessed + beta * foreseen
        return total, {"curiosity_forward_loss": foreseen, "curiosity_inverse_loss": guessed, "curiosity_loss": total}

    return loss
