"""Evolution strategies (Salimans et al. 2017, arXiv:1703.03864)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from kernel_rllib.algorithms.evolution import Evolution, Pairs, pairs_of
from kernel_rllib.arrays import Array
from kernel_rllib.config.evolution import EvolutionConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.learners.learner import Objective
from kernel_rllib.runners.trials import Outcomes

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ESConfig(EvolutionConfig):
    """The settings of ES."""

    algorithm = "ES"

    defaults = values(
        train_batch_size=10_000,
        num_env_runners=10,
        eval_prob=Default(0.03, older={"1.x": 0.003}),
    )

    stepsize = Field(0.01, "The step of Adam.", above=0)
    l2_coeff = Field(0.005, "The weight of the squared parameters.", range=(0, None))
    episodes_per_batch = Field(1000, "How many episodes an update sees at least.", range=(1, None), unit="episodes")
    return_proc_mode = Field[Literal["centered_rank", "sign", "centered_sign_rank"]](
        "centered_rank", "What becomes of returns before they are weights.", until="1.x"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        stepsize: float = NOT_PROVIDED,
        l2_coeff: float = NOT_PROVIDED,
        episodes_per_batch: int = NOT_PROVIDED,
        return_proc_mode: Literal["centered_rank", "sign", "centered_sign_rank"] = NOT_PROVIDED,
        noise_stdev: float = NOT_PROVIDED,
        eval_prob: float = NOT_PROVIDED,
        action_noise_std: float = NOT_PROVIDED,
        noise_size: int = NOT_PROVIDED,
        report_length: int = NOT_PROVIDED,
        tf_single_threaded: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how ES learns; return this config."""
        return self


class ES(Evolution):
    """Trains by steps along the mean of many directions, each weighted by the rank of its return."""

    config: ESConfig
    config_class = ESConfig

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the way uphill, and small parameters."""
        return {"es": self.objective(self.loss(self.config.l2_coeff), lr="stepsize")}

    def play_generation(self) -> Pairs:
        """Play `episodes_per_batch` episodes along directions, and more until they have `train_batch_size` steps.

        How many more is computed from the lengths of those that were played, so it is the same for any number of
        runners.
        """
        pairs = -(-self.config.episodes_per_batch // 2)
        parts = [self.play(0, pairs)]
        while (steps := sum(int(part.lengths.sum()) for part in parts)) < self.config.train_batch_size:
            more = max(1, int(np.ceil((self.config.train_batch_size - steps) * pairs / max(steps, 1))))
            parts.append(self.play(pairs, more))
            pairs += more
        return pairs_of(Outcomes.joined(parts))

    def ascent(self, pairs: Pairs) -> Array:
        """Return 1 / (2 n) sum over i of (F(i, +) - F(i, -)) epsilon(i), for n pairs (algorithm 1, mirrored).

        F are the returns after `return_proc_mode`. The factor 1 / sigma of the paper is left out, as in the authors'
        program: Adam takes no notice of it, and `l2_coeff` is measured against this.
        """
        fitness = shaped(pairs.returns, self.config.return_proc_mode)
        weights = fitness[:, 0] - fitness[:, 1]
        total = self.weighted_sum(list(enumerate(weights.tolist())))
        return (total / fitness.size).astype(np.float32)


def shaped(returns: Array, mode: str) -> Array:
    """Return what becomes of returns [n, 2] before they are weights (section 2.1: fitness shaping).

    `"centered_rank"`: their ranks, from -0.5 to 0.5; `"sign"`: -1, 0 or 1; `"centered_sign_rank"`: the ranks of these.
    """
    if mode == "sign":
        signs: Array = np.sign(returns)
        return signs
    return centered_ranks(np.sign(returns) if mode == "centered_sign_rank" else returns)


def centered_ranks(returns: Array) -> Array:
    """Return the ranks of numbers, from -0.5 for the lowest to 0.5 for the highest.

    Of equal numbers the earlier one ranks lower.
    """
    flat = returns.ravel()
    ranks = np.empty(flat.size)
    ranks[np.argsort(flat, kind="stable")] = np.arange(flat.size)
    found: Array = (ranks / (flat.size - 1) - 0.5).reshape(returns.shape)
    return found
