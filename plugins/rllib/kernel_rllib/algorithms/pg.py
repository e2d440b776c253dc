"""Vanilla policy gradient (Williams 1992, REINFORCE)."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.validate import fragment_problem


class PGConfig(AlgorithmConfig):
    """The settings of PG."""

    algorithm = "PG"

    defaults = values(
        lr=0.0004,
        num_env_runners=0,
        train_batch_size=200,
        rollout_fragment_length=Default("auto", older={"1.x": 200}),
        use_exec_api=Default(False, older={"0.8.5": True}),
        _disable_preprocessor_api=Default(True, older={"0.8.5": False}),
    )

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from filter(None, [fragment_problem(self)])
