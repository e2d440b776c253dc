"""CORE-393: a pool of actors, in order, as they come, and by hand."""

import ray
from ray.util import ActorPool

ray.init()


@ray.remote
class Doubler:
    def double(self, number):
        return 2 * number


pool = ActorPool([Doubler.remote(), Doubler.remote()])
print(list(pool.map(lambda actor, number: actor.double.remote(number), [1, 2, 3, 4])))
print(sorted(pool.map_unordered(lambda actor, number: actor.double.remote(number), [1, 2, 3, 4])))
pool.submit(lambda actor, number: actor.double.remote(number), 5)
pool.submit(lambda actor, number: actor.double.remote(number), 6)
print(pool.has_next(), pool.get_next(), pool.get_next_unordered(), pool.has_next(), pool.has_free())

# prints:
# [2, 4, 6, 8]
# [2, 4, 6, 8]
# True 10 12 False True
