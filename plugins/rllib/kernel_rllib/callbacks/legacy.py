"""Callbacks as functions of one dict, as in 0.8.5: `callbacks={"on_episode_end": lambda info: ...}`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean

INFO: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "on_episode_start": ("on_episode_start", {"env": "base_env", "policy": "policies", "episode": "episode"}),
    "on_episode_step": ("on_episode_step", {"env": "base_env", "episode": "episode"}),
    "on_episode_end": ("on_episode_end", {"env": "base_env", "policy": "policies", "episode": "episode"}),
    "on_sample_end": ("on_sample_end", {"worker": "worker", "samples": "samples"}),
    "on_train_result": ("on_train_result", {"trainer": "algorithm", "result": "result"}),
    "on_postprocess_traj": (
        "on_postprocess_trajectory",
        {
            "episode": "episode",
            "agent_id": "agent_id",
            "post_batch": "postprocessed_batch",
            "all_pre_batches": "original_batches",
        },
    ),
}
"""The event of each function, and under which key it finds which argument."""


def of_info(name: str, function: Callable[[dict[str, Any]], Any], title: str) -> tuple[str, Callable[..., Any]]:
    """Return the event of a function of `info`, and a function of the event's arguments that calls it.

    Raises:
        ConfigError: If there is no event of that name.
    """
    if name not in INFO:
        raise ConfigError(f"{title} has {name!r}{did_you_mean(name, INFO)}; there are {', '.join(INFO)}")
    event, keys = INFO[name]

    def call(**given: Any) -> Any:
        info = {key: given[argument] for key, argument in keys.items() if argument in given}
        if "worker" in given:
            info["worker"] = given["worker"]
        if "post_batch" in info:
            info["pre_batch"] = given["original_batches"][given["agent_id"]]
        return function(info)

    return event, call
