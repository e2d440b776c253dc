"""The connectors that settings ask for, in order: the filter, the user's own, the last action and reward."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gymnasium import Space

from kernel_rllib.connectors.env_to_module import ObservationConnector
from kernel_rllib.connectors.named import NamedConnector, Surroundings
from kernel_rllib.connectors.previous_steps import PreviousSteps
from kernel_rllib.connectors.running_normalizer import RunningNormalizer
from kernel_rllib.connectors.user_functions import RowFilter, RowFunction
from kernel_rllib.errors import ConfigError

FILTERS = ("MeanStdFilter", "ConcurrentMeanStdFilter")
"""Names of the one filter: there are no threads here that it would have to be safe from."""

FILTER = "0_MeanStdFilter"
"""The name of the filter among the connectors, of which it is the first."""


def observation_connectors(config: Any, action_space: Space[Any], learns: bool) -> list[ObservationConnector]:
    """Return the connectors that observations pass, new ones at each call.

    Args:
        config: The settings.
        action_space: The action space of the environment.
        learns: Whether filters learn from what is observed.

    Raises:
        ConfigError: If a connector is of a kind that can't be taken.
    """
    surroundings = Surroundings(action_space, learns, config.update_worker_filter_stats)
    found = _filters(config.observation_filter, surroundings)
    if config.env_to_module_connector is not None:
        made = _called(config.env_to_module_connector, surroundings)
        named = made if isinstance(made, (list, tuple)) else [made]
        found += filter(None, [_taken(connector, surroundings) for connector in named])
    actions, rewards = (1, 1) if config.sees_previous_step else _previous_steps(config.model)
    if actions or rewards:
        found.append(PreviousSteps(surroundings.action_space, actions=actions, rewards=rewards))
    return found


def _previous_steps(model: Any) -> tuple[int, int]:
    """Return how many of the last actions and rewards a policy sees that remembers, or that is of the user's own."""
    if model.use_lstm or model.custom_model is not None:
        return int(model.lstm_use_prev_action), int(model.lstm_use_prev_reward)
    if model.use_attention:
        return int(model.attention_use_n_prev_actions), int(model.attention_use_n_prev_rewards)
    return 0, 0


def _filters(observation_filter: Any, surroundings: Surroundings) -> list[ObservationConnector]:
    if callable(observation_filter):
        return [RowFilter(observation_filter)]
    if observation_filter not in FILTERS:
        return []
    return [RunningNormalizer(learns=surroundings.learns, synchronised=surroundings.synchronised)]


def _called(make: Callable[..., Any], surroundings: Surroundings) -> Any:
    """Return what the user's function makes, called with as many arguments as it takes: env, spaces, device."""
    parameters = inspect.signature(make).parameters.values()
    known = {"env": None, "spaces": None, "device": None, "action_space": surroundings.action_space}
    named = {one.name: known[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY and one.name in known}
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return make(*(known.get(one.name) for one in places if one.default is one.empty), **named)


def _taken(connector: Any, surroundings: Surroundings) -> ObservationConnector | None:
    if isinstance(connector, NamedConnector):
        return connector.made(surroundings)
    if isinstance(connector, ObservationConnector):
        return connector
    if callable(connector) and not isinstance(connector, type) and not _is_of_episodes(connector):
        return RowFunction(connector)
    raise ConfigError(
        f"env_to_module_connector made {connector!r}, which can't be taken: connectors are those of "
        "kernel_rllib.connectors.named, objects of classes derived from kernel_rllib.ObservationConnector, and "
        "functions of the rows of all lanes. Those of RLlib's own contract, which work on lists of episodes, have to "
        "be written as one of these."
    )


def _is_of_episodes(connector: Any) -> bool:
    """Return whether it is called as RLlib's connectors are: `(rl_module=, batch=, episodes=, ...)`."""
    try:
        return "episodes" in inspect.signature(connector).parameters
    except (TypeError, ValueError):
        return False
