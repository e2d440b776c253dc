"""Self-play against a growing pool of past selves, in connect four.

    python -m kernel_rllib.examples.self_play_connect_four

`main` learns. At first it plays against one who does anything. Whenever it has won enough of the last hundred
matches, a copy of it joins those that it plays against, and does not learn any more. Who moves first changes from match
to match.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.callbacks.callbacks import RLlibCallback
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.envs.games.board_game import PLAYERS
from kernel_rllib.envs.games.connect_four import TwoPlayerConnectFour
from kernel_rllib.examples.running import arguments_of
from kernel_rllib.first_generation.random_policy import RandomPolicy

MAIN, RANDOM = "main", "random"


@dataclass(frozen=True)
class AgainstThePast:
    """The policy of each player: `main`, and one of its opponents in turn.

    Attributes:
        opponents: The ids of the policies that it plays against.
    """

    opponents: tuple[str, ...] = (RANDOM,)

    def __call__(self, agent_id: str, episode: Any, **_: Any) -> str:
        """Return the policy of a player in an episode."""
        number = int(episode.episode_id)
        if PLAYERS[number % 2] == agent_id:
            return MAIN
        return self.opponents[number // 2 % len(self.opponents)]


class GrowingPool(RLlibCallback):
    """Adds a copy of `main` to its opponents when it wins often enough."""

    win_rate_threshold = 0.85

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        """Look at how the last matches ended."""
        returns = result["hist_stats"]["policy_main_reward"]
        won = sum(earned > 0 for earned in returns) / max(len(returns), 1)
        result["win_rate"], result["league_size"] = won, len(algorithm.config.policies)
        if won < self.win_rate_threshold:
            return
        opponents = (*algorithm.config.policy_mapping_fn.opponents, f"main_v{len(algorithm.config.policies) - 1}")
        algorithm.add_policy(
            opponents[-1],
            policy=algorithm.get_policy(MAIN),
            policy_mapping_fn=AgainstThePast(opponents),
            policies_to_train=[MAIN],
        )


def make_config(seed: int | None = None, threshold: float = 0.85) -> PPOConfig:
    """Return the settings.

    Args:
        seed: The seed of the run.
        threshold: Which share of matches `main` has to win for a copy of it to be kept.
    """
    callbacks = type("GrowingPool", (GrowingPool,), {"win_rate_threshold": threshold})
    return (
        PPOConfig()
        .environment(TwoPlayerConnectFour)
        .env_runners(num_env_runners=0, num_envs=16)
        .multi_agent(
            policies={MAIN: PolicySpec(), RANDOM: PolicySpec(RandomPolicy)},
            policies_to_train=[MAIN],
            policy_mapping_fn=AgainstThePast(),
        )
        .training(
            train_batch_size=2048, minibatch_size=256, num_epochs=4, lr=1e-3, gamma=0.99, lambda_=0.95,
            entropy_coeff=0.01, model={"fcnet_hiddens": [64, 64]},
        )
        .callbacks(callbacks)
        .debugging(seed=seed)
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Train, and return how many policies there are at the end."""
    given = list(sys.argv[1:] if argv is None else argv)
    threshold = 0.85
    if "--win-rate-threshold" in given:
        place = given.index("--win-rate-threshold")
        threshold = float(given[place + 1])
        del given[place : place + 2]
    arguments = arguments_of(given, __doc__, reward=8.0, iterations=60)
    algorithm = make_config(arguments.seed, threshold).build()
    size = 2
    try:
        for iteration in range(arguments.stop_iters):
            result = algorithm.train()
            size = len(algorithm.config.policies)
            sys.stdout.write(f"{iteration + 1}: main wins {result['win_rate']:.2f}, and there are {size} policies\n")
            if size >= arguments.stop_reward:
                break
    finally:
        algorithm.stop()
    if arguments.as_test and size < arguments.stop_reward:
        raise RuntimeError(f"there are {size} policies, and should have become {arguments.stop_reward:g}")
    return size


if __name__ == "__main__":
    main(sys.argv[1:])
