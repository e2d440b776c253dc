"""02, lines 4867-5120; V022-244, V022-245: a parameter server, with workers in step and at their own pace."""

import numpy as np
import ray

ray.init()
TRUE = np.array([2.0, -1.0, 0.5])


@ray.remote
class Server:
    def __init__(self, rate):
        self.weights, self.rate = np.zeros(3), rate

    def apply_gradients(self, *gradients):
        self.weights = self.weights - self.rate * np.mean(gradients, axis=0)
        return self.weights

    def get_weights(self):
        return self.weights


@ray.remote
class Worker:
    def __init__(self, index):
        self.random = np.random.default_rng(index)

    def compute_gradients(self, weights):
        inputs = self.random.normal(size=(32, 3))
        return inputs.T @ (inputs @ weights - inputs @ TRUE) / 32


workers = [Worker.remote(index) for index in range(3)]
server = Server.remote(0.3)
weights = server.get_weights.remote()
for _ in range(40):
    weights = server.apply_gradients.remote(*[worker.compute_gradients.remote(weights) for worker in workers])
print("in step:", np.round(ray.get(weights), 1).tolist())

server = Server.remote(0.1)
weights = server.get_weights.remote()
gradients = {worker.compute_gradients.remote(weights): worker for worker in workers}
for _ in range(150):
    ready, _ = ray.wait(list(gradients))
    worker = gradients.pop(ready[0])
    weights = server.apply_gradients.remote(ready[0])
    gradients[worker.compute_gradients.remote(weights)] = worker
print("at their own pace:", np.round(ray.get(weights), 1).tolist())

# prints:
# in step: [2.0, -1.0, 0.5]
# at their own pace: [2.0, -1.0, 0.5]
