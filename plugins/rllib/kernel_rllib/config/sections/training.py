"""Learning: `config.training(gamma=0.99, lr=3e-4, train_batch_size=4000)`; algorithms add settings of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.model_config import ModelConfig
from kernel_rllib.config.parts import Part
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings
from kernel_rllib.config.value_types import Schedule

if TYPE_CHECKING:
    from typing_extensions import Self

GradClipBy = Literal["global_norm", "norm", "value"]


def _batch_per_learner(config: Any) -> int | None:
    total, learners = config.train_batch_size, config.num_learners
    is_known = isinstance(total, int) and isinstance(learners, int) and total > 0
    return total // max(learners, 1) if is_known else None


def _batch_problem(value: Any) -> str | None:
    return None if value > 0 or value == -1 else "it counts env steps, from 1 on; -1 has it follow from the fragments"


class Training(DictSettings):
    """Settings of training that all algorithms share."""

    section = "training"

    gamma = Field(0.99, "What a reward one step later is worth.", range=(0, 1))
    lr = Field[float | Schedule | None](
        0.001,
        "The learning rate, or its schedule over env steps; None where an algorithm has others.",
        older={"1.x": 0.0001},
        range=(0, None),
    )
    grad_clip = Field[float | None](
        None, "Where gradients are clipped, by the rule of grad_clip_by; None: nowhere.", above=0, since="2.x"
    )
    grad_clip_by = Field[GradClipBy](
        "global_norm",
        "Whether grad_clip bounds the norm of all gradients together, of each parameter's, or each number.",
        since="2.x",
    )
    train_batch_size = Field(
        32,
        "Env steps of one update in all learners together.",
        older={"1.x": 200},
        unit="env steps",
        check=_batch_problem,
    )
    train_batch_size_per_learner = Field[int | None](
        None,
        "Env steps of one update in one learner; None: its share of train_batch_size.",
        range=(1, None),
        unit="env steps",
        infer=_batch_per_learner,
        since="current",
    )
    num_epochs = Field(1, "How often an update goes through its batch.", range=(1, None), since="current")
    minibatch_size = Field[int | None](
        None, "Env steps of one gradient; None: the whole batch.", range=(1, None), unit="env steps", since="current"
    )
    shuffle_batch_per_epoch = Field(
        False, "Whether each pass through the batch has an order of its own.", since="current"
    )
    model = Part(ModelConfig, "The networks: layers, activations, recurrence, a custom model.")
    optimizer = Field[dict[str, Any]]({}, "Arguments of the optimizer.", merge=True, convert=lambda value: value or {})

    @fluent()
    def training(
        self,
        gamma: float = NOT_PROVIDED,
        lr: float | Schedule | None = NOT_PROVIDED,
        train_batch_size: int = NOT_PROVIDED,
        model: dict[str, Any] | ModelConfig = NOT_PROVIDED,
        optimizer: dict[str, Any] = NOT_PROVIDED,
        max_requests_in_flight_per_sampler_worker: int = NOT_PROVIDED,
        *,
        grad_clip: float | None = NOT_PROVIDED,
        grad_clip_by: GradClipBy = NOT_PROVIDED,
        train_batch_size_per_learner: int | None = NOT_PROVIDED,
        num_epochs: int = NOT_PROVIDED,
        minibatch_size: int | None = NOT_PROVIDED,
        shuffle_batch_per_epoch: bool = NOT_PROVIDED,
        learner_class: type | None = NOT_PROVIDED,
        learner_connector: Callable[..., Any] | None = NOT_PROVIDED,
        add_default_connectors_to_learner_pipeline: bool = NOT_PROVIDED,
        learner_config_dict: dict[str, Any] = NOT_PROVIDED,
        num_aggregator_actors_per_learner: int = NOT_PROVIDED,
        max_requests_in_flight_per_aggregator_actor: int = NOT_PROVIDED,
    ) -> Self:
        """Set how is learned, as far as all algorithms share it; return this config."""
        return self


class TrainingArguments(TypedDict, total=False):
    """The common arguments of `training()` of each algorithm, for type checkers and editors."""

    gamma: float
    lr: float | Schedule | None
    train_batch_size: int
    model: dict[str, Any] | ModelConfig
    optimizer: dict[str, Any]
    max_requests_in_flight_per_sampler_worker: int
    grad_clip: float | None
    grad_clip_by: GradClipBy
    train_batch_size_per_learner: int | None
    num_epochs: int
    minibatch_size: int | None
    shuffle_batch_per_epoch: bool
    learner_class: type | None
    learner_connector: Callable[..., Any] | None
    add_default_connectors_to_learner_pipeline: bool
    learner_config_dict: dict[str, Any]
    num_aggregator_actors_per_learner: int
    max_requests_in_flight_per_aggregator_actor: int
