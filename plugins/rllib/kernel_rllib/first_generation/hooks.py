"""The arguments of `build_trainer` and `with_updates` beside a policy: functions that are called around training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean

_OWN_STEP = (
    "derive a class from the trainer, and override training_step(): it may sample, learn and broadcast as it likes"
)
REFUSED = {
    "make_policy_optimizer": f"trainers take no policy optimizers: {_OWN_STEP}",
    "execution_plan": f"there are no execution plans: {_OWN_STEP}",
    "training_pipeline": f"there are no execution plans: {_OWN_STEP}",
    "make_workers": "workers are made by the config: see environment() and env_runners()",
    "collect_metrics_fn": "after_train_result is given the result, and may change it",
    "before_evaluate_fn": "the settings `evaluation_config` are those of evaluations",
}
"""Functions that are refused, and what to do instead."""


@dataclass(frozen=True)
class TrainerHooks:
    """Functions that a trainer calls.

    Attributes:
        validate_config: Called with the settings, which it may change, before anything is made.
        before_init: Called with the trainer before environments and modules are made.
        after_init: Called with the trainer when all is made.
        before_train_step: Called with the trainer before each iteration.
        after_optimizer_step: Called with the trainer and what the learner reported, after each of its steps.
        after_train_result: Called with the trainer and the result of an iteration, which it may change.
        get_initial_state: Called with the trainer; what it returns is the first `trainer.state`.
    """

    validate_config: Callable[[Any], Any] | None = None
    before_init: Callable[[Any], Any] | None = None
    after_init: Callable[[Any], Any] | None = None
    before_train_step: Callable[[Any], Any] | None = None
    after_optimizer_step: Callable[[Any, Any], Any] | None = None
    after_train_result: Callable[[Any, Any], Any] | None = None
    get_initial_state: Callable[[Any], Mapping[str, Any]] | None = None

    def updated(self, given: Mapping[str, Any]) -> TrainerHooks:
        """Return these with others in some places.

        Raises:
            ConfigError: If a name is none that there is a place for.
        """
        known = {field.name for field in fields(self)}
        for name in given:
            if name in REFUSED:
                raise ConfigError(f"{name}= can't be honoured: {REFUSED[name]}")
            if name not in known:
                raise ConfigError(f"a trainer has no {name}={did_you_mean(name, known)}")
        return replace(self, **given)

    def call(self, name: str, *arguments: Any) -> Any:
        """Call the function in a place, if there is one, and return what it returns."""
        function = getattr(self, name)
        return None if function is None else function(*arguments)
