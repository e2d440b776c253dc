"""Generators, streamed and all at once."""

import asyncio

import ray

ray.init()


@ray.remote
def squares(count):
    for number in range(count):
        yield number**2


stream = squares.remote(4)
print(type(stream).__name__, [ray.get(reference) for reference in stream])


@ray.remote(num_returns="dynamic")
def letters():
    yield from "abc"


references = ray.get(letters.remote())
print([ray.get(reference) for reference in references])


@ray.remote(_generator_backpressure_num_objects=1)
def slow():
    yield 1
    yield 2


@ray.remote
class Actor:
    async def count(self, upto):
        for number in range(upto):
            await asyncio.sleep(0)
            yield number


async def main():
    return [await reference async for reference in slow.remote()]


print(asyncio.run(main()), [ray.get(reference) for reference in Actor.remote().count.remote(3)])

# prints:
# ObjectRefGenerator [0, 1, 4, 9]
# ['a', 'b', 'c']
# [1, 2] [0, 1, 2]
