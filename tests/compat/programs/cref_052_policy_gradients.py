"""02, lines 5501-5779; V022-242: rollouts and gradients in actors, averaged in batches, without a game library."""

import numpy as np
import ray

ray.init()


class Corridor:
    """Walk to the right: the reward is how far one came in ten steps."""

    def rollout(self, weight, random):
        position, gradient = 0, 0.0
        for _ in range(10):
            right = 1 / (1 + np.exp(-weight))
            action = random.random() < right
            gradient += (1 - right) if action else -right
            position += 1 if action else -1
        return position, gradient


@ray.remote
class Rollouts:
    def __init__(self, seed):
        self.game, self.random = Corridor(), np.random.default_rng(seed)

    def compute_gradient(self, weight):
        reward, gradient = self.game.rollout(weight, self.random)
        return reward * gradient, reward


actors = [Rollouts.remote(seed) for seed in range(4)]
weight, running_mean = 0.0, 0.0
for _ in range(30):
    results = ray.get([actor.compute_gradient.remote(ray.put(weight)) for actor in actors])
    weight += 0.05 * float(np.mean([gradient for gradient, _ in results]))
    running_mean = 0.8 * running_mean + 0.2 * float(np.mean([reward for _, reward in results]))
print("Batch 30 computed", len(results), "rollouts", running_mean > 3)

# prints:
# Batch 30 computed 4 rollouts True
