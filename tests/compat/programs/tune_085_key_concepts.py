"""03, TUNE-059, TUNE-078..084, TUNE-095, TUNE-111, TUNE-149, TUNE-178, TUNE-199..204, TUNE-208: the guide of 0.8.5."""

import os

import numpy as np
import ray
from ray import tune
from ray.tune import CLIReporter, Stopper
from ray.tune.schedulers import HyperBandScheduler
from ray.tune.utils import get_pinned_object, pin_in_object_store, validate_save_restore

ray.init()
os.environ["HOME"] = os.getcwd()


def objective(x, a, b):
    return a * (x**0.5) + b


def trainable(config):
    # config (dict): A dict of hyperparameters.

    for x in range(20):
        score = objective(x, config["a"], config["b"])

        tune.track.log(score=score)  # This sends the score to Tune.


analysis = tune.run(trainable, config={"a": 2, "b": 4}, verbose=0)
print("best config: ", analysis.get_best_config(metric="score", mode="max"))
print(round(analysis.dataframe(metric="score", mode="max")["score"][0], 2))


class MyTrainableClass(tune.Trainable):
    def _setup(self, config):
        self.x = 0
        self.a = config.get("a", 1)
        self.b = config.get("b", 1)

    def _train(self):  # This is called iteratively.
        score = objective(self.x, self.a, self.b)
        self.x += 1
        return {"score": score}

    def _save(self, tmp_checkpoint_dir):
        checkpoint_path = os.path.join(tmp_checkpoint_dir, "model.txt")
        with open(checkpoint_path, "w") as file:
            file.write(str(self.x))
        return tmp_checkpoint_dir

    def _restore(self, tmp_checkpoint_dir):
        with open(os.path.join(tmp_checkpoint_dir, "model.txt")) as file:
            self.x = int(file.read())


validate_save_restore(MyTrainableClass)
validate_save_restore(MyTrainableClass, use_object_store=True)

# Create HyperBand scheduler and maximize score
hyperband = HyperBandScheduler(metric="score", mode="max", max_t=9)

# Execute trials using HyperBand using a search space
configs = {"a": tune.uniform(0, 1), "b": tune.uniform(0, 1)}

analysis = tune.run(
    MyTrainableClass,
    name="Original",
    config=configs,
    num_samples=4,
    scheduler=hyperband,
    checkpoint_at_end=True,
    verbose=0,
)
print(
    sorted({trial.status for trial in analysis.trials}),
    max(t.last_result["training_iteration"] for t in analysis.trials),
)

longest = max(analysis.trials, key=lambda trial: trial.last_result["training_iteration"])
path, iteration = analysis.get_trial_checkpoints_paths(longest)[-1]
(trial,) = tune.run(
    MyTrainableClass,
    name="RestoredExp",  # The name can be different.
    stop={"training_iteration": iteration + 2},  # train 2 more iterations than previous
    restore=path.replace(os.getcwd(), "~"),
    config={"a": 1},
    verbose=0,
).trials
print(trial.last_result["training_iteration"] - iteration, trial.last_result["iterations_since_restore"])

# num_samples=2 repeats the 3x3 grid search 2 times, for a total of 18 trials
X_id = pin_in_object_store(np.random.random(size=1000))


def f(config, reporter):
    X = get_pinned_object(X_id)
    reporter(foo=len(X), beta=config["beta"])


analysis = tune.run(
    f,
    config={
        "alpha": tune.uniform(100),
        "beta": tune.sample_from(lambda spec: spec.config.alpha * np.random.normal()),
        "nn_layers": [
            tune.grid_search([16, 64, 256]),
            tune.grid_search([16, 64, 256]),
        ],
    },
    num_samples=2,
    reuse_actors=True,
    verbose=0,
)
print(len(analysis.trials), len(analysis.dataframe()["beta"].unique()))


class CustomStopper(Stopper):
    def __init__(self):
        self.should_stop = False

    def __call__(self, trial_id, result):
        if not self.should_stop and result["foo"] > 10:
            self.should_stop = True
        return self.should_stop

    def stop_all(self):
        """Returns whether to stop trials and prevent new ones from starting."""
        return self.should_stop


def count(config):
    for number in range(100):
        tune.track.log(foo=number)


tune.register_trainable("lambda_id", lambda config: count(config))


class ExperimentTerminationReporter(CLIReporter):
    def should_report(self, trials, done=False):
        """Reports only on experiment termination."""
        return done


trials = tune.run(
    "lambda_id", stop=CustomStopper(), progress_reporter=ExperimentTerminationReporter(), verbose=1
).trials
print([trial.last_result["foo"] for trial in trials])

# prints:
# best config:  {'a': 2, 'b': 4}
# 12.72
# ['TERMINATED'] 9
# 2 2
# 18 18
# == Status ==
# ...
# Number of trials: 1/1 (1 TERMINATED)
# ...
# [11]
