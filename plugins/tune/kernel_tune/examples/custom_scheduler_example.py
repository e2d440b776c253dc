"""A trial scheduler of one's own: it stops a trial that is too far behind the best one at the same step.

python -m kernel_tune.examples.custom_scheduler_example [--smoke-test]

`kernel_tune.testing.schedulers` has a suite of tests for it.
"""

from __future__ import annotations

import argparse
from typing import Any

from kernel import tune
from kernel.tune.schedulers import TrialScheduler


class StopStragglers(TrialScheduler):
    """Stops a trial whose value is below `share` of the best one at the same step."""

    def __init__(self, share: float = 0.5, metric: str | None = None, mode: str | None = None) -> None:
        super().__init__(metric, mode)
        self.share = share
        self.best: dict[int, float] = {}
        self.stopped = 0

    def on_trial_result(self, runner: Any, trial: tune.Trial, result: dict[str, Any]) -> str:
        step, value = result["training_iteration"], result[self.metric]
        best = self.best[step] = max(self.best.get(step, value), value)
        if value >= best * self.share:
            return self.CONTINUE
        self.stopped += 1
        return self.STOP

    def debug_string(self) -> str:
        return f"Using StopStragglers: {self.stopped} trials stopped."


def climb(config: dict[str, Any]) -> None:
    """Report a score that rises by `pace`."""
    for step in range(1, config["steps"] + 1):
        tune.report({"score": step * config["pace"]})


def main(smoke_test: bool = False) -> Any:
    """Run, and return the analysis."""
    return tune.run(
        climb,
        name="custom_scheduler",
        metric="score",
        mode="max",
        scheduler=StopStragglers(),
        config={"pace": tune.grid_search([1.0, 0.9, 0.3, 0.1]), "steps": 5 if smoke_test else 100},
        max_concurrent_trials=1,
        reuse_actors=True,
        verbose=0 if smoke_test else 1,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("steps:", [trial.results for trial in main(parser.parse_args().smoke_test).trials])
