"""A training in two phases, as a function that Tune runs, or this program alone: quick steps at first, small ones then.

    python -m kernel_rllib.examples.custom_train_fn
    python -m kernel_rllib.examples.custom_train_fn --tune

The second phase is another algorithm object, which goes on with the weights of the first. Tune sees one trial, whose
results come from both. `--tune` needs kernel-tune.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kernel
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.examples.running import arguments_of


def make_config(lr: float, seed: int | None) -> PPOConfig:
    """Return the settings of a phase."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs=4)
        .training(train_batch_size=512, minibatch_size=128, num_epochs=6, lr=lr, model={"fcnet_hiddens": [32]})
        .debugging(seed=seed)
    )


def two_phases(config: Mapping[str, Any], report: Callable[[dict[str, Any]], object]) -> float:
    """Train in two phases, and report each iteration with its phase; return the mean return at the end.

    Args:
        config: `iterations` of each phase, and `seed`.
        report: Takes the results.
    """
    weights, reached = None, float("-inf")
    for phase, lr in ((1, 3e-3), (2, 3e-4)):
        algorithm = make_config(lr, config["seed"]).build()
        if weights is not None:
            algorithm.set_weights(weights)
        for _ in range(config["iterations"]):
            reached = float(algorithm.train()["episode_reward_mean"])
            report({"phase": phase, "episode_reward_mean": reached})
        weights = algorithm.get_weights()
        algorithm.stop()
    return reached


def train(config: dict[str, Any]) -> None:
    """Train as a trial of Tune."""
    two_phases(config, kernel.tune.report)


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end.

    Raises:
        RuntimeError: If it is not reached, and `--as-test` is given.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    by_tune = "--tune" in words
    arguments = arguments_of([word for word in words if word != "--tune"], __doc__, reward=100.0, iterations=15)
    config = {"iterations": arguments.stop_iters, "seed": arguments.seed}
    if by_tune:
        trial = kernel.tune.run(train, config=config, verbose=0).trials[0]
        reached = float(trial.last_result["episode_reward_mean"])
    else:
        reached = two_phases(config, lambda result: sys.stdout.write(f"{result}\n"))
    if arguments.as_test and reached < arguments.stop_reward:
        raise RuntimeError(f"the mean return is {reached:.2f}, and should have become {arguments.stop_reward}")
    return reached


if __name__ == "__main__":
    main(sys.argv[1:])
