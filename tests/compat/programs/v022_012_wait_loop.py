"""V022-012, V022-013, BOOK-039: results in the order in which they come, with five always on their way."""

import time

import ray

ray.init()


@ray.remote
def nap(number):
    time.sleep(0.02 * (number % 3))
    return number


calls = [nap.remote(number) for number in range(5)]
ready, rest = ray.wait(calls, num_returns=2, timeout=120.0)
print(len(ready), len(rest), sorted(ready + rest, key=calls.index) == calls)
ready, rest = ray.wait(calls, num_returns=5, timeout=120.0)
print(len(ready), len(rest))


@ray.remote
def one():
    return 1


waiting = [one.remote() for _ in range(5)]
printed = []
for _ in range(100):
    ready, waiting = ray.wait(waiting)
    printed.append(ray.get(ready))
    waiting.append(one.remote())
print(printed == [[1]] * 100, len(waiting))

# prints:
# 2 3 True
# 5 0
# True 5
