"""`build_trainer`: trainers out of a policy and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kernel_rllib.config.defaults import COMMON_CONFIG
from kernel_rllib.first_generation.policy_trainer import PolicyTrainer


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
    return PolicyTrainer.with_updates(**{**overrides, **given})
