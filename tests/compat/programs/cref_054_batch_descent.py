"""02, lines 5798-5920; V022-248: one loss over actors that hold their shares of the data."""

import numpy as np
import ray

ray.init()
random = np.random.default_rng(1)
inputs = random.normal(size=(400, 4))
TRUE = np.array([1.0, 2.0, 3.0, 4.0])
targets = inputs @ TRUE


@ray.remote
class Share:
    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def loss(self, theta):
        return float(((self.inputs @ theta - self.targets) ** 2).sum())

    def gradient(self, theta):
        return 2 * self.inputs.T @ (self.inputs @ theta - self.targets)


shares = [Share.remote(ray.put(inputs[i::4]), ray.put(targets[i::4])) for i in range(4)]


def full_loss(theta):
    reference = ray.put(theta)
    return sum(ray.get([share.loss.remote(reference) for share in shares]))


def full_gradient(theta):
    reference = ray.put(theta)
    return sum(ray.get([share.gradient.remote(reference) for share in shares])).astype("float64")


theta = np.zeros(4)
for _ in range(60):
    theta = theta - 0.001 * full_gradient(theta)
serial = ((inputs @ theta - targets) ** 2).sum()
print(np.round(theta, 2).tolist(), bool(np.isclose(full_loss(theta), serial)))

# prints:
# [1.0, 2.0, 3.0, 4.0] True
