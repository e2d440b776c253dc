"""Reports: the keys that runs report, and those that are added to each report."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from decimal import Decimal
from numbers import Number
from typing import Any

Report = dict[str, Any]
"""One result of a run: its own metrics, and the keys that are added (`AUTO_KEYS`)."""

DONE = "done"
"""Whether the run ends with this result. Added if it is missing."""
SHOULD_CHECKPOINT = "should_checkpoint"
"""Set by a trainable that wants a checkpoint after this result."""
HOSTNAME = "hostname"
TRIAL_ID = "trial_id"
EXPERIMENT_ID = "experiment_id"
"""An id of the trainable's state, which is kept over checkpoint and restore."""
EXPERIMENT_TAG = "experiment_tag"
"""The trial's number and the values that were chosen for it: `0_height=40,width=37`."""
NODE_IP = "node_ip"
PID = "pid"
DATE = "date"
TIMESTAMP = "timestamp"
"""Seconds since 1970."""
EPISODE_REWARD_MEAN = "episode_reward_mean"
MEAN_LOSS = "mean_loss"
MEAN_ACCURACY = "mean_accuracy"
EPISODES_THIS_ITER = "episodes_this_iter"
EPISODES_TOTAL = "episodes_total"
TIMESTEPS_THIS_ITER = "timesteps_this_iter"
TIMESTEPS_TOTAL = "timesteps_total"
TIME_THIS_ITER_S = "time_this_iter_s"
"""The duration of the iteration in seconds: measured, unless the trainable reports it."""
TIME_TOTAL_S = "time_total_s"
TIME_SINCE_RESTORE = "time_since_restore"
TRAINING_ITERATION = "training_iteration"
"""The number of the iteration; the first is 1."""
ITERATIONS_SINCE_RESTORE = "iterations_since_restore"
CONFIG = "config"

AUTO_KEYS = (
    DONE, HOSTNAME, TRIAL_ID, EXPERIMENT_ID, EXPERIMENT_TAG, NODE_IP, PID, DATE, TIMESTAMP, TIME_THIS_ITER_S,
    TIME_TOTAL_S, TIME_SINCE_RESTORE, TRAINING_ITERATION, ITERATIONS_SINCE_RESTORE, CONFIG,
)  # fmt: skip
"""The keys that are added to each report. `CONFIG` is the configuration, which is not a metric."""

DEFAULT_METRIC = EPISODE_REWARD_MEAN
"""The metric of searchers and schedulers by default."""
NUMBER_METRIC = "_metric"
"""The key of a number that a function returns or reports without a name."""


def is_number(value: Any) -> bool:
    """Return whether a value is a number, of any library."""
    return isinstance(value, (Number, Decimal)) or getattr(value, "shape", None) == ()


def metrics_of(value: Any) -> Report:
    """Return what a function returns or yields as metrics: a dict, or a number, whose key becomes `_metric`.

    Raises TypeError for anything else.
    """
    if isinstance(value, Mapping):
        return dict(value)
    if is_number(value):
        return {NUMBER_METRIC: value}
    raise TypeError(f"a trainable returns or yields a dict of metrics, or one number, and not {reprlib.repr(value)}")


def with_plain_numbers(result: dict[Any, Any]) -> dict[Any, Any]:
    """Return a copy in which scalar arrays and tensors, numpy's numbers too, are replaced by plain numbers.

    The driver may lack the library that they come from, or its device.
    """
    plain = {}
    for key, value in result.items():
        if type(value) is dict:
            value = with_plain_numbers(value)
        elif type(value) not in _PLAIN and getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
        plain[key] = value
    return plain


_PLAIN = (float, int, str, bool, type(None))


def flatten(result: dict[str, Any], separator: str = "/") -> dict[str, Any]:
    """Return a copy without nested dicts: `{"a": {"b": 1}}` becomes `{"a/b": 1}`. Keys become strings."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, dict) and value:
            for inner, leaf in flatten(value, separator).items():
                flat[f"{key}{separator}{inner}"] = leaf
        else:
            flat[str(key)] = value
    return flat


def look_up(result: dict[str, Any], key: str) -> Any:
    """Return the value of a key, or of a path like `evaluation/reward`; None if there is neither."""
    if key in result:
        return result[key]
    value: Any = result
    for part in key.split("/"):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def metric_in(result: Report, metric: str) -> str:
    """Return the key that a result is compared by: `metric`, or by default the key of a number without a name."""
    if metric == DEFAULT_METRIC and NUMBER_METRIC in result and metric not in result:
        return NUMBER_METRIC
    return metric


def own_keys(result: Report) -> str:
    """Return the names of a run's own metrics for messages: flat, sorted, at most 20 of them."""
    flat = flatten({name: value for name, value in result.items() if name not in AUTO_KEYS})
    own = sorted(name for name in flat if not name.startswith("config/"))
    more = f" and {len(own) - 20} more" if len(own) > 20 else ""
    return (", ".join(own[:20]) or "nothing of its own") + more
