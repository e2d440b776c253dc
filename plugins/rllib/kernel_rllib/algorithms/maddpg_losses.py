"""The losses of MADDPG, and actions as critics take them: equations 5 and 6 of Lowe et al. 2017, arXiv 1706.02275."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import Space, spaces

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.gumbel_softmax import GumbelSoftmax
from kernel_rllib.errors import SpaceError
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.central_critic import AgentWithCentralCritic
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.action_rows import row_space
from kernel_rllib.spaces.flatten import one_hot
from kernel_rllib.spaces.squash import normalised_space

UNIFORMS = "uniforms"
"""The column of uniform numbers by which the policy's actions are drawn in its loss."""
JUDGED_OBS, JUDGED_ACTIONS = "judged_obs", "judged_actions"
"""The columns of what critics take: what is seen [N, X] and done [N, U]."""


class JudgedActions:
    """The actions of one agent as critics take them: boxes as they are, discrete ones one-hot, floats [N, width].

    Discrete actions of the policy are drawn by Gumbel-softmax, one-hot with the gradient of the parts: section 4.1.
    """

    def __init__(self, space: Space[Any], *, normalised: bool) -> None:
        """Take the actions of a space.

        Args:
            space: The space of the actions that the environment takes.
            normalised: True if actions of a Box are learned between -1 and 1.

        Raises:
            SpaceError: If there is no gradient by such actions.
        """
        learned = row_space(space)
        self.is_discrete = isinstance(learned, spaces.Discrete)
        self.distribution: Distribution
        if isinstance(learned, spaces.Discrete):
            self.distribution = GumbelSoftmax(int(learned.n), straight_through=True)
        else:
            learned = normalised_space(learned) if normalised else learned
            self.distribution = for_space(learned, box="deterministic")
            if not self.distribution.reparameterised:
                raise SpaceError(
                    f"MADDPG can't learn actions of {space}: a Discrete space or a Box of floats was expected. Take "
                    "PPO, or wrap the environment"
                )
        self.learned = learned

    @property
    def width(self) -> int:
        """The number of columns of an action, as the critics take it."""
        return self.distribution.action_size

    def rows(self, actions: Array) -> Array:
        """Return what was done [N, width], of actions as replay has them."""
        if self.is_discrete:
            return one_hot(actions.reshape(len(actions)), self.width)
        return actions

    def best(self, nn: Ops, given: Any) -> Any:
        """Return what the policy thinks best [N, width], of what it gives."""
        return self.distribution.mode(nn, given)

    def drawn(self, nn: Ops, given: Any, uniforms: Array) -> Any:
        """Return a draw of the policy [N, width] that a gradient goes through, by uniform numbers [N, width]."""
        return self.distribution.sample(nn, given, nn.constant(uniforms)) if self.is_discrete else self.best(nn, given)


def critic_loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
    """Return the mean of (Q(x, a_1 .. a_N) - y)^2: equation 6."""
    assert isinstance(module, AgentWithCentralCritic)
    values = module.q_values(nn, parameters, batch[JUDGED_OBS], nn.constant(batch[JUDGED_ACTIONS]))
    total = nn.mean(nn.square(values - nn.constant(batch[columns.VALUE_TARGETS])))
    return total, {"critic_loss": total, "mean_q": nn.mean(nn.stop_gradient(values))}


def policy_loss(actions: JudgedActions, before: int, regularisation: float) -> Loss:
    """Return minus the mean of Q(x, a_1 .. mu(o) .. a_N), whose gradient is equation 5 with the sign turned.

    The squares of what the policy gives are added, as the authors' program does: they keep logits small.

    Args:
        actions: The actions of the agent.
        before: The number of columns of all actions that belong to agents before this one.
        regularisation: The factor of the mean of the squares.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        assert isinstance(module, AgentWithCentralCritic)
        given = module.train(nn, parameters, batch)[columns.ACTION_DIST_INPUTS]
        own = actions.drawn(nn, given, batch[UNIFORMS])
        done = batch[JUDGED_ACTIONS]
        parts = [done[:, :before], own, done[:, before + actions.width :]]
        joint = nn.concat([part if part is own else nn.constant(np.ascontiguousarray(part)) for part in parts], axis=-1)
        worth = -nn.mean(module.q_values(nn, parameters, batch[JUDGED_OBS], joint))
        total = worth + regularisation * nn.mean(nn.square(given))
        return total, {"actor_loss": total}

    return loss
