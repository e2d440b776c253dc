"""HyperBand with a function: it saves its state with its reports, so that it can be paused and resumed.

python -m kernel_tune.examples.hyperband_function_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

from kernel import tune
from kernel.tune.schedulers import HyperBandScheduler


def train(config: dict[str, Any]) -> None:
    """Report a reward that rises along a curve whose place and height are the hyperparameters."""
    checkpoint = tune.get_checkpoint()
    step = checkpoint.to_dict()["step"] if checkpoint is not None else 0
    while True:
        step += 1
        reward = math.tanh(step / config["width"]) * config["height"]
        tune.report({"episode_reward_mean": reward, "step": step}, checkpoint=tune.Checkpoint.from_dict({"step": step}))


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    longest = 9 if smoke_test else 200
    return tune.run(
        train,
        name="hyperband_function",
        metric="episode_reward_mean",
        mode="max",
        scheduler=HyperBandScheduler(time_attr="training_iteration", max_t=longest),
        stop={"training_iteration": longest},
        num_samples=5 if smoke_test else 20,
        config={"width": tune.uniform(10, 100), "height": tune.uniform(0, 100)},
        reuse_actors=True,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).best_config)
