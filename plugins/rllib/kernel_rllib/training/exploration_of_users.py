"""Explorations of the user's own, `exploration_config={"type": MyExploration, ...}`, and draws from a policy."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration, StochasticSampling
from kernel_rllib.training.exploration_by_class import ExplorationByClass, chooses_by_distribution

METHODS = ("choose", "best", "recorded")
ATTRIBUTES = ("noise", "keeps")
"""The methods and attributes that an exploration needs: `kernel_rllib.exploration.exploration.Exploration` has each."""
_HOMES = ("kernel_rllib", "ray")
"""The packages whose classes are known by their names."""


def exploration_name(settings: Mapping[str, Any], usual: str) -> str:
    """Return the name of the exploration that a config describes: the last part of a dotted path.

    Args:
        settings: `exploration_config`.
        usual: The name where there is no `type`.
    """
    kind = settings.get("type", usual)
    return kind.rpartition(".")[2] if isinstance(kind, str) else getattr(kind, "__name__", str(kind))


def own_exploration(settings: Mapping[str, Any], *, records: bool = False, **context: Any) -> Exploration | None:
    """Return the exploration of a class of the user's own, or None where the config names one of RLlib's.

    The class is called with the options beside `type`, and with those of `context` that its constructor has arguments
    for.

    Args:
        settings: `exploration_config`. Its `type` is a class, or the dotted path of one. It may have the methods of
            `Exploration`, or, as in older programs, `get_exploration_action`.
        records: True if the algorithm learns from how likely actions were.
        context: Further arguments that a constructor may have, such as `distribution`, by name.

    Raises:
        ConfigError: If it can't be imported or made so, or lacks what an exploration needs.
    """
    kind = _class_of(settings.get("type"))
    if kind is None or kind.__module__.partition(".")[0] in _HOMES:
        return None
    options = {name: value for name, value in settings.items() if name != "type"}
    if chooses_by_distribution(kind):
        return ExplorationByClass(kind, options, records=records)
    takes = inspect.signature(kind).parameters
    given = {name: value for name, value in context.items() if name in takes and name not in options}
    try:
        made = kind(**given, **options)
    except TypeError as error:
        raise ConfigError(
            f"exploration_config has the type {kind.__name__}, which can't be made with the options {options} and with "
            f"{', '.join(given) or 'nothing else'}: {error}. Its constructor gets what stands beside `type`, and of "
            f"{', '.join(context)} what it has arguments for"
        ) from error
    missing = [name for name in (*METHODS, *ATTRIBUTES) if not hasattr(made, name)]
    if missing:
        raise ConfigError(
            f"exploration_config has the type {kind.__name__}, which lacks {', '.join(missing)}: an exploration needs "
            "all that kernel_rllib.exploration.exploration.Exploration has"
        )
    exploration: Exploration = made
    return exploration


def exploration_of_draws(settings: Mapping[str, Any], distribution: Distribution) -> Exploration:
    """Return the exploration that a config describes, for learning from actions that a policy has drawn.

    Args:
        settings: `exploration_config`.
        distribution: The policy's.

    Raises:
        ConfigError: If it is another than draws from the policy, or one of the user's own.
    """
    own = own_exploration(settings, records=True, distribution=distribution)
    if own is not None:
        return own
    name = exploration_name(settings, "StochasticSampling")
    if name != "StochasticSampling":
        raise ConfigError(
            f"exploration_config has the type {name!r}, and this algorithm learns from how probable the actions were "
            "that its policy drew: take 'StochasticSampling', or a class of your own that records `action_logp`"
        )
    options = sorted(option for option, value in settings.items() if option != "type" and value)
    if options:
        raise ConfigError(
            f"exploration_config has {', '.join(options)}, which StochasticSampling does not take here: all actions "
            "are drawn from the policy. Leave it out"
        )
    return StochasticSampling(distribution)


def _class_of(kind: Any) -> type[Any] | None:
    """Return the class that a `type` is or names by a dotted path; None for a plain name, or a path of RLlib's."""
    if isinstance(kind, type):
        return kind
    if not isinstance(kind, str) or "." not in kind or kind.partition(".")[0] in _HOMES:
        return None
    module, _, name = kind.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"exploration_config has the type {kind!r}, which can't be imported ({error}): give the class, or the "
            "dotted path of one"
        ) from error
    if not isinstance(found, type):
        raise ConfigError(f"exploration_config has the type {kind!r}, which is no class but {type(found).__name__}")
    return found
