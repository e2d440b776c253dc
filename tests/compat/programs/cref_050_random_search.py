"""02, lines 5286-5479; V022-240, V022-241: random search, worked on as results come."""

import numpy as np
import ray

ray.init()


def draw(random):
    return {"rate": float(10 ** random.uniform(-3, 0)), "steps": int(random.integers(5, 40))}


@ray.remote
def evaluate(choice):
    weight = 5.0
    for _ in range(choice["steps"]):
        weight -= choice["rate"] * 2 * weight
    return choice, 1 / (1 + abs(weight))


random = np.random.default_rng(0)
waiting = [evaluate.remote(draw(random)) for _ in range(10)]
best, seen = ({}, 0.0), 0
while waiting:
    ready, waiting = ray.wait(waiting)
    found = ray.get(ready[0])
    seen += 1
    best = max(best, found, key=lambda pair: pair[1])
print(seen, sorted(best[0]), best[1] > 0.9)

# prints:
# 10 ['rate', 'steps'] True
