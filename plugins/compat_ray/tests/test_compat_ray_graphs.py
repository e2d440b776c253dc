"""Graphs of bound calls."""

from __future__ import annotations

from .test_compat_ray_import import run

PROGRAM = """
import kernel_compat_ray.install, pickle, ray
ray.init(num_cpus=2)

@ray.remote(num_cpus=0)
class Actor:
    def __init__(self, value):
        self.value = value
    def add(self, more):
        self.value += more
    def get(self):
        return self.value

@ray.remote
def combine(x, y):
    return x, y

first, second = Actor.bind(10), Actor.bind(10)
first.add.bind(2)
first.add.bind(4)
second.add.bind(6)
graph = combine.bind(first.get.bind(), second.get.bind())
print(ray.get(graph.execute()), ray.get(graph.execute()))
many = Actor.bind(0)
for _ in range(2000):
    many.add.bind(1)
print(ray.get(many.get.bind().execute()))
handle = Actor.remote(1)
handle.add.bind(5)
print(ray.get(handle.get.bind().execute()))
"""


def test_calls_bound_before_are_made_before() -> None:
    done = run(PROGRAM)
    assert done.stdout.splitlines() == ["(16, 16) (16, 16)", "2000", "1"], done.stderr
