"""Exploration: `config.exploration(explore=True, exploration_config={"type": "SoftQ"})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class Exploration(DictSettings):
    """Settings of exploration: how the policy tries actions that it does not prefer."""

    section = "exploration"

    explore = Field(True, "Whether actions explore, where a call doesn't say it itself.")
    exploration_config = Field[dict[str, Any]](
        {"type": "StochasticSampling"},
        "Which class explores (`type`: a name, a dotted path or a class), and the arguments of its constructor.",
        merge=True,
        convert=lambda value: value or {},
    )

    @fluent()
    def exploration(self, *, explore: bool = NOT_PROVIDED, exploration_config: dict[str, Any] = NOT_PROVIDED) -> Self:
        """Set how actions are found that the policy does not prefer; return this config."""
        return self
