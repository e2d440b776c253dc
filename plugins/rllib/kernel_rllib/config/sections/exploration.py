"""Exploration: `config.exploration(explore=True, exploration_config={"type": "SoftQ"})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


INTRINSIC_REWARDS = ("Curiosity", "RND")
"""The types of `exploration_config` that reward what is new, and leave the choice of actions to another exploration."""


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

    @property
    def intrinsic_reward_kind(self) -> str | None:
        """Which rewards for what is new `exploration_config` asks for: one of `INTRINSIC_REWARDS`, or None."""
        kind = self.exploration_config.get("type")
        name = kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", None)
        return name if name in INTRINSIC_REWARDS else None

    @property
    def choice_of_actions(self) -> dict[str, Any]:
        """The part of `exploration_config` by which actions are chosen: with intrinsic rewards, `sub_exploration`."""
        if self.intrinsic_reward_kind is None:
            return dict(self.exploration_config)
        return dict(self.exploration_config.get("sub_exploration") or {})
