"""Behaviour cloning: the policy is made likelier to do what was recorded (Pomerleau 1989; MARWIL with `beta` 0)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from kernel_rllib.algorithms.marwil import MARWIL, MARWILConfig
from kernel_rllib.config.generations import values
from kernel_rllib.training.honoured import ONE_PASS


class BCConfig(MARWILConfig):
    """The settings of BC: those of MARWIL, whose `beta` is 0 and stays so."""

    algorithm = "BC"

    defaults = values(beta=0.0, postprocess_inputs=False)

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.beta:
            yield f"beta={self.beta} weighs what is imitated by how it turned out, which is MARWIL; leave it at 0"


class BC(MARWIL):
    """Imitates all that was recorded alike."""

    config: BCConfig
    config_class = BCConfig
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **dict.fromkeys(
            (
                "gamma",
                "vf_coeff",
                "moving_average_sqd_adv_norm_start",
                "moving_average_sqd_adv_norm_update_rate",
            ),
            "it imitates all alike, whatever it was worth",
        ),
    }
