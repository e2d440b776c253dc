"""Callbacks: `config.callbacks(MyCallbacks, on_episode_end=function)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

Functions = Callable[..., Any] | list[Callable[..., Any]] | None

_EVENTS = (
    "algorithm_init",
    "train_result",
    "evaluate_start",
    "evaluate_end",
    "evaluate_offline_start",
    "evaluate_offline_end",
    "env_runners_recreated",
    "offline_eval_runners_recreated",
    "checkpoint_loaded",
    "environment_created",
    "episode_created",
    "episode_start",
    "episode_step",
    "episode_end",
    "sample_end",
)


def _class_problem(value: Any) -> str | None:
    if value is None or isinstance(value, (str, dict)):
        return None
    classes = value if isinstance(value, (list, tuple)) else [value]
    if classes and all(callable(each) for each in classes):
        return None
    return (
        "it is a class of callbacks, a function that returns an object of one, a list of these, or a dict of functions"
    )


class Callbacks(DictSettings):
    """Settings of the user's callbacks: which functions are called at which events."""

    section = "callbacks"

    callbacks_class = Field[Any](
        None,
        "A class of callbacks, a list of such classes, or, as in 0.8.5, a dict of functions; None for none.",
        check=_class_problem,
    )
    callbacks_on_algorithm_init = Field[Functions](None, "Called when an algorithm has been built.", since="current")
    callbacks_on_train_result = Field[Functions](None, "Called with the result of each iteration.", since="current")
    callbacks_on_evaluate_start = Field[Functions](None, "Called before an evaluation.", since="current")
    callbacks_on_evaluate_end = Field[Functions](None, "Called with the metrics of an evaluation.", since="current")
    callbacks_on_evaluate_offline_start = Field[Functions](None, "Called before one on recorded data.", since="current")
    callbacks_on_evaluate_offline_end = Field[Functions](None, "Called after one on recorded data.", since="current")
    callbacks_on_env_runners_recreated = Field[Functions](
        None, "Called when lost runners are there again.", since="current"
    )
    callbacks_on_offline_eval_runners_recreated = Field[Functions](
        None, "Called when lost runners of evaluations on recorded data are there again.", since="current"
    )
    callbacks_on_checkpoint_loaded = Field[Functions](
        None, "Called when a checkpoint has been loaded.", since="current"
    )
    callbacks_on_environment_created = Field[Functions](None, "Called with each new environment.", since="current")
    callbacks_on_episode_created = Field[Functions](None, "Called before an episode's first reset.", since="current")
    callbacks_on_episode_start = Field[Functions](None, "Called after an episode's first reset.", since="current")
    callbacks_on_episode_step = Field[Functions](None, "Called after each step of an episode.", since="current")
    callbacks_on_episode_end = Field[Functions](None, "Called when an episode has ended.", since="current")
    callbacks_on_sample_end = Field[Functions](None, "Called with the samples of each round.", since="current")

    @fluent(**{f"on_{event}": f"callbacks_on_{event}" for event in _EVENTS})
    def callbacks(
        self,
        callbacks_class: type | list[type] | Callable[..., Any] | dict[str, Callable[..., Any]] | None = NOT_PROVIDED,
        *,
        on_algorithm_init: Functions = NOT_PROVIDED,
        on_train_result: Functions = NOT_PROVIDED,
        on_evaluate_start: Functions = NOT_PROVIDED,
        on_evaluate_end: Functions = NOT_PROVIDED,
        on_evaluate_offline_start: Functions = NOT_PROVIDED,
        on_evaluate_offline_end: Functions = NOT_PROVIDED,
        on_env_runners_recreated: Functions = NOT_PROVIDED,
        on_offline_eval_runners_recreated: Functions = NOT_PROVIDED,
        on_checkpoint_loaded: Functions = NOT_PROVIDED,
        on_environment_created: Functions = NOT_PROVIDED,
        on_episode_created: Functions = NOT_PROVIDED,
        on_episode_start: Functions = NOT_PROVIDED,
        on_episode_step: Functions = NOT_PROVIDED,
        on_episode_end: Functions = NOT_PROVIDED,
        on_sample_end: Functions = NOT_PROVIDED,
    ) -> Self:
        """Set what of the user's is called when; return this config."""
        return self
