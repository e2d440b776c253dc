"""The parts that these programs share: their arguments, and training until a limit is reached."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any


def arguments_of(argv: Sequence[str] | None, text: str | None, *, reward: float, iterations: int) -> argparse.Namespace:
    """Return the arguments of a program, under the names that RLlib's examples have.

    Args:
        argv: The words after the program's name; None for those of this process.
        text: The description of the program, for its help.
        reward: Training ends when the mean return is this, unless it is said otherwise.
        iterations: It ends after so many iterations.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stop-reward", type=float, default=reward, help="end when the mean return is this")
    parser.add_argument("--stop-iters", type=int, default=iterations, help="end after so many iterations")
    parser.add_argument("--stop-timesteps", type=int, default=None, help="end after so many steps of environments")
    parser.add_argument("--seed", type=int, default=None, help="the seed of the run")
    parser.add_argument("--as-test", action="store_true", help="raise an error where the mean return is not reached")
    return parser.parse_args(argv)


def trained(config: Any, arguments: argparse.Namespace) -> float:
    """Train until the arguments say that it is enough, and return the mean return at the end.

    Raises:
        RuntimeError: If it is not reached, and `--as-test` is given.
    """
    algorithm = config.build()
    reached = float("-inf")
    try:
        for iteration in range(arguments.stop_iters):
            reached = algorithm.train()["episode_reward_mean"]
            sys.stdout.write(f"{iteration + 1}: mean return {reached:.2f} after {algorithm.env_steps_sampled} steps\n")
            is_long = arguments.stop_timesteps is not None and algorithm.env_steps_sampled >= arguments.stop_timesteps
            if reached >= arguments.stop_reward or is_long:
                break
    finally:
        algorithm.stop()
    if arguments.as_test and reached < arguments.stop_reward:
        raise RuntimeError(f"the mean return is {reached:.2f}, and should have become {arguments.stop_reward}")
    return reached
