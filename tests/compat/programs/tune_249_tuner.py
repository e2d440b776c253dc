"""Pain TUNE-3: a tuner as in 2.49 and later, with everything under `ray.tune` again; TUNE-009: an example is named."""

import os
import tempfile

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter
from ray.tune.search.basic_variant import BasicVariantGenerator


def trainable(config):
    checkpoint = tune.get_checkpoint()
    start = 0
    if checkpoint:
        with checkpoint.as_directory() as directory:
            with open(os.path.join(directory, "step")) as file:
                start = int(file.read())
    for step in range(start, 3):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "step"), "w") as file:
                file.write(str(step + 1))
            tune.report(
                {"loss": config["x"] ** 2 / (step + 1), "step": step},
                checkpoint=tune.Checkpoint.from_directory(directory),
            )


ray.init()
tuner = tune.Tuner(
    trainable,
    param_space={"x": tune.grid_search([1, 2, 3]), "settings": tune.choice([{"depth": 2}])},
    tune_config=tune.TuneConfig(metric="loss", mode="min", search_alg=BasicVariantGenerator(max_concurrent=2)),
    run_config=tune.RunConfig(
        name="latest",
        storage_path=os.path.abspath("results"),
        stop={"training_iteration": 3},
        checkpoint_config=tune.CheckpointConfig(num_to_keep=1),
        failure_config=tune.FailureConfig(max_failures=1),
        verbose=0,
    ),
)
results = tuner.fit()
best = results.get_best_result()
print(len(results), best.config, round(best.metrics["loss"], 3), best.checkpoint.path.startswith(best.path))
print(
    tune.logger.pretty_print({"a": {"b": 1}}).split(),
    ConcurrencyLimiter.__name__,
    tune.schedulers.ASHAScheduler.__name__,
)
try:
    from ray.tune.examples.mnist_pytorch import ConvNet

    print(len(list(ConvNet().parameters())) == 4)
except ImportError as error:
    print("pip install torch" in str(error))

# prints:
# 3 {'x': 1, 'settings': {'depth': 2}} 0.333 True
# ['a:', 'b:', '1'] ConcurrencyLimiter AsyncHyperBandScheduler
# True
