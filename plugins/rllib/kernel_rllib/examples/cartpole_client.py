"""A client that plays CartPole by the policy of a server, which learns from it; see `cartpole_server`.

    python -m kernel_rllib.examples.cartpole_client --inference-mode remote

The cart is here, and the server knows nothing of it. With `--inference-mode local` actions are chosen here, by a copy
of the policy, and steps are sent in batches.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

import gymnasium

from kernel_rllib.errors import EnvError, PolicyServerError
from kernel_rllib.serving.client import MODES, PolicyClient


def arguments_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="localhost:9900", help="the address of the server")
    parser.add_argument("--token", default=None, help="that of the server; see docs/rllib-serving.md")
    parser.add_argument("--inference-mode", choices=MODES, default="local", help="who chooses actions")
    parser.add_argument("--update-interval", type=float, default=10.0, help="seconds between newer parameters")
    parser.add_argument("--no-train", action="store_true", help="let the server not learn from these episodes")
    parser.add_argument("--stop-reward", type=float, default=500.0, help="end after an episode with this return")
    parser.add_argument("--episodes", type=int, default=None, help="end after so many episodes")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the first episode")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> list[float]:
    """Play until the return or the number of episodes is reached, or the server ends; return the returns."""
    arguments = arguments_of(argv)
    client = PolicyClient(
        arguments.server, arguments.inference_mode, update_interval=arguments.update_interval, token=arguments.token
    )
    env = gymnasium.make("CartPole-v1")
    returns: list[float] = []
    try:
        while arguments.episodes is None or len(returns) < arguments.episodes:
            seed = arguments.seed if not returns else None
            returns.append(play(client, env, is_learned_from=not arguments.no_train, seed=seed))
            sys.stdout.write(f"Total reward: {returns[-1]}\n")
            if returns[-1] >= arguments.stop_reward:
                break
    except (EnvError, PolicyServerError) as error:
        sys.stdout.write(f"The server has ended: {error}\n")
    finally:
        client.close()
        env.close()
    return returns


def play(client: PolicyClient, env: gymnasium.Env, *, is_learned_from: bool, seed: int | None) -> float:
    """Play an episode, and return what it has brought."""
    seen, _ = env.reset(seed=seed)
    episode = client.start_episode(training_enabled=is_learned_from)
    total, is_over = 0.0, False
    while not is_over:
        action = client.get_action(episode, seen)
        seen, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        client.log_returns(episode, float(reward))
        is_over = terminated or truncated
    client.end_episode(episode, seen)
    return total


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # It says when it sends steps and takes parameters.
    main()
