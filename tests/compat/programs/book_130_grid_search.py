"""08, BOOK-130..134: the book's first search, a grid of 25 points; it sleeps less."""

import math
import time

import ray
from ray import tune

ray.init()


def training_function(config):
    x, y = config["x"], config["y"]
    time.sleep(0.001)
    score = objective(x, y)
    tune.report(score=score)


def objective(x, y):
    return math.sqrt((x**2 + y**2) / 2)


result = tune.run(
    training_function,
    config={
        "x": tune.grid_search([-1, -0.5, 0, 0.5, 1]),
        "y": tune.grid_search([-1, -0.5, 0, 0.5, 1]),
    },
)

print(result.get_best_config(metric="score", mode="min"))

# prints:
# ...Number of trials: 25/25 (25 TERMINATED)...
# {'x': 0, 'y': 0}
