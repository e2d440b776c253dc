"""Several carts with poles, one for each agent: the smallest environment with as many agents as one likes."""

from __future__ import annotations

from kernel_rllib.envs.multi_agent import CopiesAsAgents


class MultiAgentCartPole(CopiesAsAgents):
    """The carts. env_config: `num_agents` (1), and the settings of CartPole-v1."""

    maker = "CartPole-v1"
