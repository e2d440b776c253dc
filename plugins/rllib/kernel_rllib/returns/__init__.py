"""Returns: what a step was worth, from the rewards and values after it. Pure functions on arrays [time, lane].

Episodes begin and end inside the arrays. In all of them `values[t]` is the value of the observation before step t and
`next_values[t]` that of the observation after it: at an episode's end that of its final observation, not of the one
that a reset returned. After a step that terminated the value is 0, whatever `next_values` holds. After one that was
truncated, and after the last row, `next_values` stands for all that would have followed.
"""

from kernel_rllib.returns.categorical_projection import categorical_support, project_categorical
from kernel_rllib.returns.gae import gae
from kernel_rllib.returns.lambda_returns import lambda_returns
from kernel_rllib.returns.n_step import NStep, n_step
from kernel_rllib.returns.quantiles import quantile_midpoints, quantile_targets
from kernel_rllib.returns.retrace import retrace
from kernel_rllib.returns.returns_to_go import returns_to_go
from kernel_rllib.returns.steps import valid_rows
from kernel_rllib.returns.vtrace import VTrace, vtrace

__all__ = [
    "NStep",
    "VTrace",
    "categorical_support",
    "gae",
    "lambda_returns",
    "n_step",
    "project_categorical",
    "quantile_midpoints",
    "quantile_targets",
    "retrace",
    "returns_to_go",
    "valid_rows",
    "vtrace",
]
