"""CORE-385, V022-002, BOOK-036: values in the store, one and many."""

import ray

ray.init()

reference = ray.put("a value")
assert ray.get(reference) == "a value"
many = [ray.put(number) for number in range(10)]
print(ray.get(many))
print(type(reference).__name__, len(reference.hex()), repr(reference) == f"ObjectRef({reference.hex()})")

# prints:
# [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
# ObjectRef 40 True
