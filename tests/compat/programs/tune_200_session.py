"""08, BOOK-130..134, pain TUNE-3: a tuner as in 2.0, which reports by `ray.air.session`, and a class of 1.x."""

import os

import ray
from ray import tune
from ray.air import session
from ray.air.config import CheckpointConfig, RunConfig
from ray.tune.search.basic_variant import BasicVariantGenerator


def train(config):
    for step in range(3):
        session.report({"score": config["x"] ** 2 + step})


class Counter(tune.Trainable):
    def setup(self, config):
        self.count = 0

    def step(self):
        self.count += 1
        return {"count": self.count, "done": self.count == 4}

    def save_checkpoint(self, folder):
        path = os.path.join(folder, "count")
        with open(path, "w") as file:
            file.write(str(self.count))
        return path

    def load_checkpoint(self, path):
        with open(path) as file:
            self.count = int(file.read())


ray.init()
grid = tune.Tuner(
    train,
    param_space={"x": tune.grid_search([0, 1, 2, 3, 4])},
    tune_config=tune.TuneConfig(metric="score", mode="min", search_alg=BasicVariantGenerator()),
    run_config=RunConfig(storage_path=os.path.abspath("results"), verbose=0),
).fit()
print(len(grid), grid.get_best_result().config)
grid = tune.Tuner(
    Counter,
    run_config=RunConfig(
        storage_path=os.path.abspath("results"), verbose=0, checkpoint_config=CheckpointConfig(checkpoint_at_end=True)
    ),
).fit()
print(grid[0].metrics["count"], os.path.basename(grid[0].checkpoint.path))

# prints:
# 5 {'x': 0}
# 4 checkpoint_000004
