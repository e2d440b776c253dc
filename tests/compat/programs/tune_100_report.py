"""03, TUNE-060, TUNE-082, TUNE-155, TUNE-249..255: as in 1.x, with `tune.report`, `tune.suggest`, `checkpoint_dir`."""

import json
import os

os.environ["HOME"] = os.getcwd()  # what a program keeps is in ~/ray_results

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.suggest import BasicVariantGenerator, ConcurrencyLimiter, SearchAlgorithm
from ray.tune.suggest.variant_generator import generate_variants
from ray.tune.trial import Trial


def train(config, checkpoint_dir=None, data=None):
    start = 0
    if checkpoint_dir:
        with open(os.path.join(checkpoint_dir, "state.json")) as file:
            start = json.load(file)["step"] + 1
    for step in range(start, 4):
        with tune.checkpoint_dir(step=step) as directory:
            with open(os.path.join(directory, "state.json"), "w") as file:
                json.dump({"step": step}, file)
        tune.report(mean_loss=len(data) * config["lr"] / (step + 1), done=step == 3)


ray.init()
analysis = tune.run(
    tune.with_parameters(train, data=list(range(10))),
    name="report",
    metric="mean_loss",
    mode="min",
    config={"lr": tune.grid_search([0.1, 0.2]), "batch": tune.choice([8])},
    scheduler=ASHAScheduler(max_t=4, grace_period=4),
    search_alg=ConcurrencyLimiter(BasicVariantGenerator(), max_concurrent=2),
    resources_per_trial={"cpu": 1},
    progress_reporter=tune.CLIReporter(metric_columns=["mean_loss"]),
    verbose=0,
)
print(analysis.best_config, round(analysis.best_result["mean_loss"], 2))
print(os.path.relpath(analysis.best_logdir).startswith("ray_results/report/train_"))
checkpoint = analysis.get_best_checkpoint(analysis.best_trial)
with open(os.path.join(getattr(checkpoint, "path", checkpoint), "state.json")) as file:
    print(json.load(file))

by_hand = BasicVariantGenerator()
by_hand.add_configurations({"by hand": {"run": "train", "config": {"lr": tune.grid_search([1, 2])}, "num_samples": 2}})
print([trial.config for trial in by_hand.next_trials()], by_hand.is_finished())
print([config for _, config in generate_variants({"lr": {"grid_search": [3, 4]}})])


class ThreeTrials(SearchAlgorithm):
    def __init__(self):
        self.left, self.ended = [1, 2, 3], []

    def add_configurations(self, experiments):
        self.names = list(experiments)

    def next_trials(self):
        trials, self.left = [Trial("simple", config={"x": x}) for x in self.left], []
        return trials

    def is_finished(self):
        return not self.left

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended.append(result["score"])


def simple(config):
    tune.report(score=config["x"] ** 2)


algorithm = ThreeTrials()
trials = tune.run(simple, name="by algorithm", search_alg=algorithm, verbose=0).trials
print(algorithm.names, sorted(algorithm.ended), [trial.config["x"] for trial in trials])

# prints:
# {'lr': 0.1, 'batch': 8} 0.25
# True
# {'step': 3}
# [{'lr': 1}, {'lr': 2}, {'lr': 1}, {'lr': 2}] True
# [{'lr': 3}, {'lr': 4}]
# ['by algorithm'] [1, 4, 9] [1, 2, 3]
