"""ASHA with trials of very different quality: most are stopped early, the best run to the end.

python -m kernel_tune.examples.async_hyperband_example [--smoke-test]
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import AsyncHyperBandScheduler


def curve(config: dict[str, Any]) -> None:
    """Report a loss that falls towards a value that depends on `width` and `height`."""
    for step in range(100):
        loss = (0.1 + config["width"] * step / 100) ** -1 + config["height"] * 0.1
        tune.report({"mean_loss": loss, "iterations": step})


def main(smoke_test: bool = False) -> Any:
    """Search, and return the analysis."""
    scheduler = AsyncHyperBandScheduler(metric="mean_loss", mode="min", max_t=100, grace_period=5)
    return tune.run(
        curve,
        name="asynchyperband_example",
        metric="mean_loss",
        mode="min",
        scheduler=scheduler,
        stop={"training_iteration": 20 if smoke_test else 100},
        num_samples=8 if smoke_test else 60,
        config={"width": tune.uniform(10, 100), "height": tune.uniform(0, 100)},
        reuse_actors=True,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("best:", main(parser.parse_args().smoke_test).best_config)
