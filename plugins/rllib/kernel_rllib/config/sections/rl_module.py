"""Modules: `config.rl_module(model_config={"fcnet_hiddens": [64, 64]})`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.model_config import ModelConfig
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class RLModule(DictSettings):
    """Modules of one's own, and settings that hold for some modules only."""

    section = "rl_module"

    rl_module_spec = Field[Any](
        None, "Which module to build, as a specification; None for the algorithm's own.", since="2.x"
    )
    algorithm_config_overrides_per_module = Field[dict[str, Any]](
        {}, "Settings that are others for a module, by its id.", merge=True, since="2.x"
    )

    @fluent(model_config="model", model_config_dict="model")
    def rl_module(
        self,
        *,
        model_config: dict[str, Any] | ModelConfig = NOT_PROVIDED,
        rl_module_spec: Any = NOT_PROVIDED,
        algorithm_config_overrides_per_module: dict[str, Any] = NOT_PROVIDED,
        model_config_dict: dict[str, Any] = NOT_PROVIDED,
    ) -> Self:
        """Set modules of one's own, and the networks of the usual ones, as `training(model=...)` does."""
        return self
