"""CORE-387, V022-015: ten actors at once, then one of them five times, in order."""

import ray

ray.init()


@ray.remote
class Count:
    def __init__(self):
        self.value = 0

    def increase(self):
        self.value += 1
        return self.value


counts = [Count.remote() for _ in range(10)]
print(ray.get([count.increase.remote() for count in counts]))
print(ray.get([counts[0].increase.remote() for _ in range(5)]))

# prints:
# [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
# [2, 3, 4, 5, 6]
