"""Switches that may go away: `config.experimental(_disable_preprocessor_api=True)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class Experimental(DictSettings):
    """Switches that may go away."""

    section = "experimental"

    _validate_config = Field(
        True, "Whether settings that contradict each other are an error; otherwise they are logged.", since="current"
    )
    _use_msgpack_checkpoints = Field(
        False, "Whether checkpoints need no pickle.", since="current", inert="no checkpoint needs one"
    )
    _torch_grad_scaler_class = Field[type | None](None, "A class that scales gradients in torch.", since="current")
    _torch_lr_scheduler_classes = Field[list[Any] | dict[str, Any] | None](
        None, "Classes of torch that schedule learning rates, for all modules or by module.", since="current"
    )
    _tf_policy_handles_more_than_one_loss = Field(
        False, "Whether a policy's loss function returns several, for as many optimizers.", since="1.x"
    )
    _disable_preprocessor_api = Field(False, "Whether observations reach the model as they are.", since="1.x")
    _disable_action_flattening = Field(False, "Whether nested actions stay nested in batches.", since="1.x")
    _disable_initialize_loss_from_dummy_batch = Field(
        False, "Whether losses aren't tried on zeros first.", since="2.x", inert="they never are"
    )
    _disable_execution_plan_api = Field(
        True,
        "Whether there are no execution plans.",
        since="1.x",
        until="2.x",
        inert="training_step() is what is called",
    )
    use_exec_api = Field(
        False, "Whether execution plans are used.", until="0.8.5", inert="both forms drive the same learner"
    )
    simple_optimizer = Field(
        False,
        "Whether one learner does all; -1 in dicts where nobody has set it.",
        convert=lambda value: False if is_deprecated_value(value) else value,
        since="1.x",
        until="2.x",
        inert="learners() says how many there are",
    )

    @fluent()
    def experimental(
        self,
        *,
        _validate_config: bool = NOT_PROVIDED,
        _use_msgpack_checkpoints: bool = NOT_PROVIDED,
        _torch_grad_scaler_class: type | None = NOT_PROVIDED,
        _torch_lr_scheduler_classes: list[Any] | dict[str, Any] | None = NOT_PROVIDED,
        _tf_policy_handles_more_than_one_loss: bool = NOT_PROVIDED,
        _disable_preprocessor_api: bool = NOT_PROVIDED,
        _disable_action_flattening: bool = NOT_PROVIDED,
        _disable_initialize_loss_from_dummy_batch: bool = NOT_PROVIDED,
        _disable_execution_plan_api: bool = NOT_PROVIDED,
        use_exec_api: bool = NOT_PROVIDED,
        simple_optimizer: bool = NOT_PROVIDED,
    ) -> Self:
        """Set switches that may go away; return this config."""
        return self
