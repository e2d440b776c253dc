"""Settings of checkpoints: `config.checkpointing(export_native_model_files=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class Checkpointing(DictSettings):
    """Settings of the additional contents of checkpoints, which training does not need to go on."""

    section = "checkpointing"

    export_native_model_files = Field(
        False,
        "Whether models are also saved as their library does it, to be loaded without this one.",
        since="2.x",
        inert="weights.npy and tree.json are read by numpy and json alone",
    )
    checkpoint_trainable_policies_only = Field(False, "Whether policies that aren't trained are left out.", since="2.x")

    @fluent()
    def checkpointing(
        self, export_native_model_files: bool = NOT_PROVIDED, checkpoint_trainable_policies_only: bool = NOT_PROVIDED
    ) -> Self:
        """Set what checkpoints have; return this config."""
        return self
