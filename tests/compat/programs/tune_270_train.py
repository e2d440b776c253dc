"""Pain TUNE-3: a tuner as in 2.7 and later, with `ray.train` for reports, checkpoints and configurations."""

import json
import os
import tempfile

import ray
from ray import train, tune
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig
from ray.tune.schedulers import PopulationBasedTraining


def trainable(config):
    step = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            with open(os.path.join(directory, "step.json")) as file:
                step = json.load(file)["step"]
    while step < 6:
        step += 1
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "step.json"), "w") as file:
                json.dump({"step": step}, file)
            name = train.get_context().get_trial_name()
            train.report(
                {"step": step, "score": step * config["lr"], "name": name},
                checkpoint=Checkpoint.from_directory(directory),
            )
        if step == 3 and not os.path.exists("failed"):
            open("failed", "w").close()
            raise RuntimeError("once for each trial")


ray.init()
tuner = tune.Tuner(
    tune.with_resources(trainable, {"cpu": 0.5}),
    param_space={"lr": tune.grid_search([1, 2])},
    tune_config=tune.TuneConfig(metric="score", mode="max"),
    run_config=RunConfig(
        name="pbt",
        storage_path=os.path.abspath("results"),
        failure_config=FailureConfig(max_failures=1),
        checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="score"),
        verbose=0,
    ),
)
results = tuner.fit()
best = results.get_best_result()
is_named = os.path.basename(best.path).startswith(best.metrics["name"])
print(best.config, best.metrics["score"], results.num_errors, is_named)
print(list(best.metrics_dataframe["step"]), sorted(results.get_dataframe()["score"]))
with best.checkpoint.as_directory() as directory:
    with open(os.path.join(directory, "step.json")) as file:
        print(json.load(file))
print(tune.Tuner.can_restore(os.path.join(os.path.abspath("results"), "pbt")))
again = tune.Tuner.restore(os.path.abspath("results/pbt"), trainable=trainable).fit()
print(len(again), PopulationBasedTraining.__name__)

# prints:
# {'lr': 2} 12 0 True
# [1, 2, 3, 4, 5, 6] [6, 12]
# {'step': 6}
# True
# 2 PopulationBasedTraining
