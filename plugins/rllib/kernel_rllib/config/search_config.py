"""Settings of searches before acting, and of rewards that are ranked: parts of the settings of AlphaZero."""

from __future__ import annotations

from kernel_rllib.config.fields import Field
from kernel_rllib.config.settings_dict import DictSettings


class MctsConfig(DictSettings):
    """How trees are grown before each step, and how an action is chosen by them."""

    puct_coefficient = Field(1.0, "The weight of the network's probabilities against values.", range=(0, None))
    num_simulations = Field(30, "How many nodes a tree grows by.", range=(1, None))
    temperature = Field(1.5, "The power of visits that actions are drawn in proportion to: high is greedy.", above=0)
    dirichlet_epsilon = Field(0.25, "The share of noise in the probabilities at the root.", range=(0, 1))
    dirichlet_noise = Field(0.03, "The concentration of that noise: low puts it on few actions.", above=0)
    argmax_tree_policy = Field(False, "Whether the action with the most visits is taken, and none is drawn.")
    add_dirichlet_noise = Field(True, "Whether there is noise at the root.")


class RankedRewardsConfig(DictSettings):
    """How returns become 1 or -1, by those of the episodes before (Laterre et al. 2018, arXiv:1807.01672)."""

    enable = Field(True, "Whether they do. They do not where two play, one against the other.")
    percentile = Field(75.0, "The percentile of earlier returns that a return of 1 reaches.", range=(0, 100))
    buffer_max_length = Field(1000, "How many returns are kept.", range=(1, None), unit="episodes")
    initialize_buffer = Field(True, "Whether episodes of random actions fill it first.")
    num_init_rewards = Field(100, "How many of these there are.", range=(1, None), unit="episodes")
