"""Imitates what was recorded, estimates what the imitator is worth, and then lets it play.

    python -m kernel_rllib.examples.imitating

What is imitated are the files of `saving_experiences`. Behaviour cloning reads them and never plays. Estimates come
from the same files: weighted importance sampling, and the doubly robust estimator. Evaluation plays in the environment.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence

from kernel_rllib.algorithms.bc import BCConfig
from kernel_rllib.examples.running import arguments_of
from kernel_rllib.examples.saving_experiences import write
from kernel_rllib.offline.estimators.batch_importance_sampling import WeightedImportanceSampling
from kernel_rllib.offline.estimators.doubly_robust import DoublyRobust
from kernel_rllib.offline.estimators.fitted_q import FittedQEvaluation


def make_config(folder: str, seed: int | None = None) -> BCConfig:
    """Return the settings."""
    model = {"type": FittedQEvaluation, "n_iters": 5, "minibatch_size": 256, "polyak_coef": 0.5}
    methods = {
        "weighted": {"type": WeightedImportanceSampling},
        "doubly_robust": {"type": DoublyRobust, "q_model_config": model},
    }
    return (
        BCConfig()
        .environment("CartPole-v1")
        .offline_data(input_=folder)
        .training(train_batch_size=256, lr=2e-3, model={"fcnet_hiddens": [32, 32]})
        .evaluation(evaluation_duration=5, evaluation_config={"explore": False}, off_policy_estimation_methods=methods)
        .reporting(min_sample_timesteps_per_iteration=4000)
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Imitate, and return the mean return of the evaluation at the end.

    Raises:
        RuntimeError: If it is not reached, and `--as-test` is given.
    """
    arguments = arguments_of(argv, __doc__, reward=200.0, iterations=10)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, 60, arguments.seed or 0)
        algorithm = make_config(folder, arguments.seed).build()
        for iteration in range(arguments.stop_iters):
            estimates = algorithm.train()["off_policy_estimator"]
            told = ", ".join(f"{name} {each['v_target']:.1f}" for name, each in estimates.items())
            recorded = estimates["weighted"]["v_behavior"]
            sys.stdout.write(f"{iteration + 1}: discounted return {told}; recorded {recorded:.1f}\n")
        reached = float(algorithm.evaluate()["evaluation"]["episode_reward_mean"])
        algorithm.stop()
    sys.stdout.write(f"mean return {reached:.1f}\n")
    if arguments.as_test and reached < arguments.stop_reward:
        raise RuntimeError(f"the mean return is {reached:.2f}, and should have become {arguments.stop_reward}")
    return reached


if __name__ == "__main__":
    main(sys.argv[1:])
