"""Search spaces: domains of values, and configurations that are made from them.

`functions.py` has what users write (`uniform`, `choice`, ...), `domains.py` the domains that these return. `resolve.py`
draws a configuration, `variants.py` combines grids with draws, `flat.py` represents a space as numbers for model-based
searchers.
"""

from kernel_tune.search_space.domains import Categorical, Domain, Float, Function, Integer, Normal
from kernel_tune.search_space.functions import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    qrandn,
    quniform,
    randint,
    randn,
    sample_from,
    uniform,
)
from kernel_tune.search_space.tags import evaluated_parameters, experiment_tag
from kernel_tune.search_space.variants import count_variants, generate_variants

__all__ = [
    "Categorical",
    "Domain",
    "Float",
    "Function",
    "Integer",
    "Normal",
    "choice",
    "count_variants",
    "evaluated_parameters",
    "experiment_tag",
    "generate_variants",
    "grid_search",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]
