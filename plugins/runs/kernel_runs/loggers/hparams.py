"""Data for TensorBoard's HParams tab: the hyperparameters of a trial, its metrics, and how it ended.

Field numbers are those of tensorboard/plugins/hparams/api.proto and plugin_data.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kernel_runs.loggers.encoding import text_of
from kernel_runs.loggers.events import plugin_value
from kernel_runs.loggers.protobuf import double, field, whole

EXPERIMENT_TAG = "_hparams_/experiment"
_TEXT, _BOOL, _NUMBER = 1, 2, 3
_SUCCESS, _FAILURE = 1, 2


def hparams_summary(
    parameters: dict[str, Any], metrics: Iterable[str], group: str, begun: float, ended: float, failed: bool
) -> bytes:
    """Return the summary of a trial that has ended.

    `metrics` are the tags of numbers that the trial has logged; `begun` and `ended` are in seconds since 1970.
    Parameters other than strings, numbers and booleans are shown as text.
    """
    values = {name: _value(value) for name, value in parameters.items()}
    infos = [field(4, field(1, name) + whole(4, kind)) for name, (kind, _) in values.items()]
    shown = [field(5, field(1, field(2, tag))) for tag in metrics]
    experiment = double(3, begun) + b"".join(infos) + b"".join(shown)
    chosen = [field(1, field(1, name) + field(2, value)) for name, (_, value) in values.items()]
    start = b"".join(chosen) + field(4, group) + double(5, begun)
    end = whole(1, _FAILURE if failed else _SUCCESS) + double(2, ended)
    return b"".join(
        (
            plugin_value(EXPERIMENT_TAG, "hparams", field(2, experiment)),
            plugin_value("_hparams_/session_start_info", "hparams", field(3, start)),
            plugin_value("_hparams_/session_end_info", "hparams", field(4, end)),
        )
    )


def _value(value: Any) -> tuple[int, bytes]:
    """Return the kind of a value, and the value as google.protobuf.Value."""
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, bool):
        return _BOOL, whole(4, int(value))
    if isinstance(value, (int, float)):
        try:
            return _NUMBER, double(2, float(value))
        except OverflowError:
            pass
    return _TEXT, field(3, value if isinstance(value, str) else text_of(value))
