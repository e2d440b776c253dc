"""2.x graphs: calls that are bound first and made later, with inputs, actors and several outputs."""

import ray
from ray.dag import InputNode, MultiOutputNode

ray.init()


@ray.remote
def add(left, right=1):
    return left + right


@ray.remote
class Total:
    def __init__(self, start):
        self.value = start

    def add(self, amount):
        self.value += amount
        return self.value


once = add.bind(add.bind(1), right=add.bind(2, 3))
print(ray.get(once.execute()), ray.get(once.execute()))

with InputNode() as given:
    graph = add.bind(add.bind(given, 10), given)
print(ray.get(graph.execute(1)), ray.get(graph.execute(2)))

with InputNode() as given:
    pair = add.bind(given[0], right=given.other)
print(ray.get(pair.execute(5, other=6)))

total = Total.bind(100)
first = total.add.bind(1)
second = total.add.bind(first)
print(ray.get(second.execute()), ray.get(second.execute()))

with InputNode() as given:
    both = MultiOutputNode([add.bind(given, 1), add.bind(given, 2)])
print(ray.get(both.execute(0)))

handle = Total.remote(0)
with InputNode() as given:
    calls = handle.add.bind(given)
print(ray.get(calls.execute(3)), ray.get(calls.execute(4)))

compiled = calls.experimental_compile()
print(ray.get([compiled.execute(1), compiled.execute(1)]))
compiled.teardown()

shared = add.bind(1, 1)
print(ray.get(add.bind(shared, shared).execute()), type(shared).__name__)

with InputNode() as given:
    nested = add.bind(given["a"], given["b"])
print(ray.get(nested.execute({"a": 1, "b": 2})))

# prints:
# 7 7
# 12 14
# 11
# 202 202
# [1, 2]
# 3 7
# [8, 9]
# 4 FunctionNode
# 3
