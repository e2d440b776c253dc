"""`build_trainer` and `with_updates`: trainers out of a policy and functions, and trainers that differ a little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_rllib.config.defaults import COMMON_CONFIG
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation.hooks import TrainerHooks
from kernel_rllib.first_generation.policy_trainer import PolicyTrainer
from kernel_rllib.first_generation.trainer import Trainer


def build_trainer(
    name: str,
    default_policy: Any = None,
    default_config: Mapping[str, Any] | None = None,
    get_policy_class: Callable[[Any], Any] | None = None,
    mixins: Iterable[type] | None = None,
    **functions: Any,
) -> type[PolicyTrainer]:
    """Return a trainer that samples, and lets a policy learn from what was sampled.

    Args:
        name: Its name.
        default_policy: The class of its policy: one of `build_torch_policy`, or one derived from `Policy`.
        default_config: All its settings, such as `with_common_config({...})`; None for those that all trainers have.
        get_policy_class: Returns the class of the policy for the settings, in place of the default one; None for that.
        mixins: Classes that it is derived from besides.
        functions: Those of `TrainerHooks`, by their names.

    Raises:
        ConfigError: If something is given that there is no place for.
    """
    config = COMMON_CONFIG if default_config is None else default_config
    overrides = {"name": name, "default_policy": default_policy, "get_policy_class": get_policy_class}
    given = {key: value for key, value in functions.items() if value is not None}
    given |= {"default_config": config, "mixins": mixins}
    made: type[PolicyTrainer] = updated_trainer(PolicyTrainer, {**overrides, **given})
    return made


def updated_trainer(base: type[Trainer], overrides: Mapping[str, Any]) -> Any:
    """Return a class derived from a trainer that differs in what is given; see `Trainer.with_updates`."""
    given = dict(overrides)
    name = given.pop("name", None) or base.__name__
    mixins = tuple(given.pop("mixins", None) or ())
    config = given.pop("default_config", base._default_config)
    policy, choose = given.pop("default_policy", None), given.pop("get_policy_class", None)
    body: dict[str, Any] = {"__doc__": base.__doc__, "_name": name, "_default_config": config}
    hooks: TrainerHooks = base._hooks.updated(given)
    if policy is not None or choose is not None:
        if not issubclass(base, PolicyTrainer):
            raise ConfigError(
                f"{base.__name__} learns by its own loss, so it can't be given the policy "
                f"{getattr(policy or choose, '__name__', policy)}: make a trainer for that with "
                "build_trainer(name=..., default_policy=...), which takes the same settings"
            )
        body |= {"_policy_class": policy or base._policy_class, "_get_policy_class": staticmethod(choose or _none)}
    body["_hooks"] = hooks
    return type(name, (*mixins, base), body)


def _none(config: Any) -> None:
    return None
