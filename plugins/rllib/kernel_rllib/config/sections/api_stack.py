"""The generation of the API that results follow: `config.api_stack(enable_rl_module_and_learner=False, ...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class ApiStack(DictSettings):
    """Settings of the generation whose names results, modules and callbacks have. Training is the same in both."""

    section = "api_stack"

    enable_rl_module_and_learner = Field(
        True,
        "Whether modules and learners are the current ones, not policies and models.",
        older={"2.x": False},
        since="2.x",
    )
    enable_env_runner_and_connector_v2 = Field(
        True,
        "Whether runners and connectors are the current ones, not rollout workers.",
        older={"2.x": False},
        since="2.x",
        inert="both are views of the same runners",
    )

    @fluent()
    def api_stack(
        self,
        enable_rl_module_and_learner: bool = NOT_PROVIDED,
        enable_env_runner_and_connector_v2: bool = NOT_PROVIDED,
    ) -> Self:
        """Set whose names results, modules and callbacks have; return this config."""
        return self
