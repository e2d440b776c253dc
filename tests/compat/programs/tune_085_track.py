"""03, TUNE-008, TUNE-059, TUNE-063, TUNE-233: a grid as in 0.8.5, with `track`, loggers and the analysis."""

import ray
from ray import tune
from ray.tune import track
from ray.tune.logger import DEFAULT_LOGGERS
from ray.tune.schedulers import AsyncHyperBandScheduler
from ray.tune.suggest import ConcurrencyLimiter, Searcher


def objective(config):
    for step in range(10):
        track.log(mean_accuracy=1 - abs(config["lr"] - 0.01) * 10 - 1 / (step + 1), hello="world")


ray.init()
analysis = tune.run(
    objective,
    config={"lr": tune.grid_search([0.001, 0.01, 0.1])},
    scheduler=AsyncHyperBandScheduler(metric="mean_accuracy", mode="max", max_t=10, grace_period=10),
    loggers=DEFAULT_LOGGERS,
    local_dir="results",
    verbose=0,
)
print(analysis.get_best_config(metric="mean_accuracy"))
print(sorted(int(frame["mean_accuracy"].count()) for frame in analysis.trial_dataframes.values()))


class Fixed(Searcher):
    def __init__(self):
        super().__init__(metric="mean_accuracy", mode="max")
        self.made = 0

    def suggest(self, trial_id):
        self.made += 1
        return {"lr": 0.01 * self.made}

    def on_trial_complete(self, trial_id, result=None, error=False):
        assert result["hello"] == "world"


analysis = tune.run(
    objective, search_alg=ConcurrencyLimiter(Fixed(), max_concurrent=1), num_samples=3, local_dir="results", verbose=0
)
print([round(trial.config["lr"], 2) for trial in analysis.trials])

# prints:
# {'lr': 0.01}
# [10, 10, 10]
# [0.01, 0.02, 0.03]
