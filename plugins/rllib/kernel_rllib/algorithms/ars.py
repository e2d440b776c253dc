"""Augmented random search (Mania et al. 2018, arXiv:1803.07055)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kernel_rllib.algorithms.evolution import Evolution, Pairs, pairs_of
from kernel_rllib.arrays import Array
from kernel_rllib.config.evolution import EvolutionConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.learners.learner import Objective

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ARSConfig(EvolutionConfig):
    """The settings of ARS."""

    algorithm = "ARS"

    defaults = values(num_env_runners=2, action_noise_std=0.0)

    num_rollouts = Field(32, "How many directions are tried, each in both senses.", range=(1, None))
    rollouts_used = Field(32, "How many of the best of them make the update.", range=(1, None))
    sgd_stepsize = Field(0.01, "The step of an update.", above=0)
    offset = Field[int | float](0, "What is taken off each reward, such as what surviving a step gives.")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        num_rollouts: int = NOT_PROVIDED,
        rollouts_used: int = NOT_PROVIDED,
        sgd_stepsize: float = NOT_PROVIDED,
        offset: int | float = NOT_PROVIDED,
        noise_stdev: float = NOT_PROVIDED,
        eval_prob: float = NOT_PROVIDED,
        action_noise_std: float = NOT_PROVIDED,
        noise_size: int = NOT_PROVIDED,
        report_length: int = NOT_PROVIDED,
        tf_single_threaded: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how ARS learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.rollouts_used > self.num_rollouts:
            yield (
                f"rollouts_used={self.rollouts_used} of num_rollouts={self.num_rollouts} can't be used; "
                "make the one smaller or the other larger"
            )


class ARS(Evolution):
    """Trains by steps along the best of some directions, shorter where the returns of these differ more."""

    config: ARSConfig
    config_class = ARSConfig
    without: ClassVar[Mapping[str, str]] = {
        **Evolution.without,
        **dict.fromkeys(
            ("train_batch_size", "train_batch_size_per_learner"), "num_rollouts says how much an update sees"
        ),
    }

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the way uphill, by steps of `sgd_stepsize`."""
        return {"ars": replace(self.objective(self.loss(), lr="sgd_stepsize"), optimizer="sgd")}

    def play_generation(self) -> Pairs:
        """Play both sides of `num_rollouts` directions."""
        return pairs_of(self.play(0, self.config.num_rollouts))

    def ascent(self, pairs: Pairs) -> Array:
        """Return 1 / (b sigma_R) sum over the b best of (r(i, +) - r(i, -)) delta(i) (algorithm 2, line 7: V2-t).

        A direction is as good as the better one of its two returns. sigma_R is the standard deviation of the 2 b
        returns of the best; where it is 0, nothing is known, and no step is made.
        """
        best = best_directions(pairs.returns, self.config.rollouts_used)
        used = pairs.returns[best]
        deviation = float(used.std())
        if not deviation:
            return np.zeros(self.learner.module.table.size, np.float32)
        weights = (used[:, 0] - used[:, 1]) / (len(best) * deviation)
        return self.weighted_sum(list(zip(best, weights.tolist(), strict=True))).astype(np.float32)


def best_directions(returns: Array, count: int) -> list[int]:
    """Return the numbers of so many directions with the highest returns [n, 2], the best first."""
    order: list[int] = np.argsort(-returns.max(axis=1), kind="stable")[:count].tolist()
    return order
