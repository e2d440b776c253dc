"""A logger of one's own besides the default ones, and directories with names of one's own.

python -m kernel_tune.examples.logging_example [--smoke-test]
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from kernel import tune
from kernel.tune.loggers import DEFAULT_LOGGERS, Logger


class LinesLogger(Logger):
    """Writes a line of text for each result."""

    def on_result(self, result: dict[str, Any]) -> None:
        with open(os.path.join(self.logdir, "lines.txt"), "a", encoding="utf-8") as file:
            file.write(f"after {result['training_iteration']}: {result['mean_loss']:.3f}\n")


def train(config: dict[str, Any]) -> None:
    """Report a loss that falls."""
    for step in range(config["steps"]):
        tune.report({"mean_loss": config["width"] / (step + 1)})


def trial_name(trial: tune.Trial) -> str:
    """Return the name of a trial, and of its directory."""
    return f"{trial.trainable_name}_width{trial.config['width']}_{trial.trial_id}"


def main(smoke_test: bool = False) -> Any:
    """Run, and return the analysis."""
    return tune.run(
        train,
        name="logging_example",
        metric="mean_loss",
        mode="min",
        loggers=(*DEFAULT_LOGGERS, LinesLogger),
        trial_name_creator=trial_name,
        config={"steps": 5 if smoke_test else 100, "width": tune.grid_search([10, 20])},
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("files:", sorted(os.listdir(main(parser.parse_args().smoke_test).best_logdir)))
