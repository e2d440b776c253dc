"""CORE-394 to CORE-397: coroutines in an actor, references awaited, and a bound on how many run."""

import asyncio

import ray

ray.init()


@ray.remote
class Sleeper:
    def __init__(self):
        self.running = self.most = 0

    async def nap(self, seconds):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(seconds)
        self.running -= 1
        return "rested"

    async def most_at_once(self):
        return self.most


sleeper = Sleeper.remote()
ray.get(sleeper.nap.remote(0))
assert ray.get([sleeper.nap.remote(0.5) for _ in range(50)]) == ["rested"] * 50
print(ray.get(sleeper.most_at_once.remote()) > 10)

bounded = Sleeper.options(max_concurrency=10).remote()
ray.get([bounded.nap.remote(0.2) for _ in range(50)])
print(ray.get(bounded.most_at_once.remote()))


@ray.remote
def one():
    return 1


async def main():
    print(await one.remote())
    done, pending = await asyncio.wait([asyncio.ensure_future(_value(one.remote()))])
    print([task.result() for task in done], pending)
    print(await asyncio.gather(*[sleeper.nap.remote(0.01) for _ in range(4)]))
    await asyncio.wait_for(one.remote().as_future(), timeout=120)


async def _value(reference):
    return await reference


asyncio.run(main())

# prints:
# True
# 10
# 1
# [1] set()
# ['rested', 'rested', 'rested', 'rested']
