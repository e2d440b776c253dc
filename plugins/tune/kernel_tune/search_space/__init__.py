"""Search spaces: what may be chosen for a configuration (domains), and how configurations are made from it.

`functions.py` holds what users write (`uniform`, `choice`, ...), `domains.py` what it means, `resolve.py` draws a
configuration, `variants.py` combines grids with draws, `flat.py` shows a space to model-based searchers as numbers.
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
