"""Distributions of actions, from what a module puts out: draws, log-probabilities, entropies, divergences.

They are made from the numbers of an action space and hold nothing else; `for_space` says which one a space gets.
"""

from kernel_rllib.distributions.beta import Beta
from kernel_rllib.distributions.bounds import Bounds
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.categorical import Categorical
from kernel_rllib.distributions.deterministic import Deterministic
from kernel_rllib.distributions.dirichlet import Dirichlet
from kernel_rllib.distributions.distribution import Distribution, Noise
from kernel_rllib.distributions.gaussian import Gaussian
from kernel_rllib.distributions.gumbel_softmax import GumbelSoftmax
from kernel_rllib.distributions.multi_binary import MultiBinary
from kernel_rllib.distributions.multi_categorical import MultiCategorical
from kernel_rllib.distributions.product import Product
from kernel_rllib.distributions.squashed_gaussian import SquashedGaussian

__all__ = [
    "Beta",
    "Bounds",
    "Categorical",
    "Deterministic",
    "Dirichlet",
    "Distribution",
    "Gaussian",
    "GumbelSoftmax",
    "MultiBinary",
    "MultiCategorical",
    "Noise",
    "Product",
    "SquashedGaussian",
    "for_space",
]
