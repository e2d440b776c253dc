"""A deployment that follows its load: from nothing to four replicas, and back to nothing.

python -m kernel_serve.examples.autoscaling

    second  requests  replicas
         0         0         0
         0        16         1
         1        16         2
         1        16         4
         5         0         1
         6         0         0

While it runs, `kernel serve top` in another terminal shows the replicas come and go, and `kernel serve status` says why
there are as many as there are. The delays are for a demonstration: for real traffic leave them as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernel import serve

SECONDS_OF_WORK = 0.2


@serve.deployment(
    actor_options={"num_cpus": 0},
    max_ongoing_requests=4,
    autoscaling_config={
        "min_replicas": 0,
        "max_replicas": 4,
        "target_ongoing_requests": 4,
        "look_back_period_s": 1.0,
        "upscale_delay_s": 0.5,
        "downscale_delay_s": 2.0,
    },
)
class Worker:
    """Waits, as for a database or another service."""

    async def __call__(self, request: Any = None) -> str:
        await asyncio.sleep(SECONDS_OF_WORK)
        return "done\n"


app = Worker.bind()


@contextmanager
def load(handle: Any, clients: int) -> Iterator[None]:
    """Let so many clients ask, one request after another, as long as the block lasts."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            handle.remote().result(60)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def replicas() -> int:
    """Return how many replicas take requests."""
    states = serve.status()["applications"]["scaled"]["deployments"]["Worker"]["replica_states"]
    return int(states.get("RUNNING", 0))


def main(clients: int = 16, at_most: float = 60.0, say: Callable[[str], None] = print) -> list[int]:
    """Load it until all replicas are there, then wait until they are gone; return how many there were, in turn."""
    handle = serve.run(app, name="scaled", route_prefix="/work")
    seen: list[int] = []
    begin = time.monotonic()
    say("second  requests  replicas")

    def watch(until: int, asking: int) -> None:
        while (number := replicas()) != until or not seen:
            if not seen or seen[-1] != number:
                seen.append(number)
                say(f"{time.monotonic() - begin:6.0f}{asking:10}{number:10}")
            if time.monotonic() - begin > at_most:
                raise TimeoutError(f"there are {number} replicas, not {until}, after {at_most:g} s")
            time.sleep(0.05)
        seen.append(until)
        say(f"{time.monotonic() - begin:6.0f}{asking:10}{until:10}")

    watch(0, 0)
    with load(handle, clients):
        watch(4, clients)
    watch(0, 0)
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--clients", type=int, default=16, help="how many ask at a time")
    main(parser.parse_args().clients)
