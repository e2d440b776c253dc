"""The module of Q-learning by quantiles: of each action's return, quantiles at levels that stay (QR-DQN, 2018)."""

from __future__ import annotations

from typing import Any, ClassVar

from kernel_rllib.modules.module import Outputs
from kernel_rllib.modules.q_network import QNetwork
from kernel_rllib.nn.ops import Ops

QUANTILES = "quantiles"


class QuantileNetwork(QNetwork):
    """Quantiles of the returns of all actions: `options.atoms` says how many, which are 2 or more.

    `train` returns them as `quantiles` [N, A, atoms]. They are not sorted: each one learns by itself. Heads are those
    of values, so that a dueling network adds up quantiles of the state and of advantages.
    """

    distributions: ClassVar[str] = QUANTILES

    def values(self, nn: Ops, outputs: Outputs) -> Any:
        """Return the values of actions [N, A]: the means of their quantiles."""
        return self.means(nn, outputs[QUANTILES])

    def means(self, nn: Ops, distributions: Any) -> Any:
        """Return the means [...] of quantiles [..., atoms], each of which is as likely: equation 2 with lemma 2."""
        return nn.mean(distributions, axis=-1)
