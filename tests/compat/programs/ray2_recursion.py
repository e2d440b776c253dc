"""Remote functions that call themselves and each other, and ones in modules and classes."""

import functools

import ray

ray.init()


@ray.remote
def fibonacci(number):
    if number < 2:
        return number
    return sum(ray.get([fibonacci.remote(number - 1), fibonacci.remote(number - 2)]))


@ray.remote
def even(number):
    return True if number == 0 else ray.get(odd.remote(number - 1))


@ray.remote
def odd(number):
    return False if number == 0 else ray.get(even.remote(number - 1))


def timed(function):
    @functools.wraps(function)
    def wrapper(*args):
        return "timed", function(*args)

    return wrapper


@ray.remote
@timed
def wrapped(number):
    return number


@ray.remote
class Node:
    def __init__(self, depth):
        self.child = Node.options(num_cpus=0).remote(depth - 1) if depth else None

    @staticmethod
    def static():
        return "static"

    @property
    def depth(self):
        return 1 if self.child is None else 1 + ray.get(self.child.count.remote())

    def count(self):
        return self.depth


class Library:
    helper = ray.remote(lambda number: number * 3)

    @classmethod
    def run(cls):
        return ray.get(cls.helper.remote(4))


node = Node.remote(2)
print(ray.get([fibonacci.remote(6), even.remote(4), wrapped.remote(1), node.count.remote(), node.static.remote()]))
print(Library.run(), fibonacci.__name__, ray.get(fibonacci.options(name="named").remote(1)))

# prints:
# [8, True, ('timed', 1), 3, 'static']
# 12 fibonacci 1
