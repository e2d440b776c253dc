"""A canary: the new version of a model gets more and more of the traffic, as long as it does not fail.

python -m kernel_serve.examples.ab_test

    canary  5 %: 5 of 200 users, 0 % of their requests failed
    canary 25 %: 43 of 200 users, 0 % of their requests failed
    canary 50 %: 100 of 200 users, 0 % of their requests failed
    canary 100 %: 200 of 200 users, 0 % of their requests failed
    the canary is the stable version now
    $ curl http://127.0.0.1:8000/price -H 'x-user: ada'
    {"price":9.5,"version":"canary"}

With `--broken` the canary fails for some, and the traffic goes back. The header `x-user` decides which version answers:
the same user gets the same version for as long as the weights stay, and moves once at most while they grow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from kernel import serve

STEPS = (0.05, 0.25, 0.5, 1.0)
USERS = 200
MOST_FAILURES = 0.01


@serve.deployment
class Price:
    """Says what something costs."""

    def __init__(self, version: str, price: float, broken: bool = False) -> None:
        self.version, self.price, self.broken = version, price, broken

    async def __call__(self, request: Request) -> dict[str, Any]:
        if self.broken and request.headers.get("x-user", "").endswith("7"):
            raise LookupError("no price for this user")
        return {"price": self.price, "version": self.version}


def ask(url: str, user: str) -> str:
    """Return which version a user gets, "" where the request failed."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"x-user": user}), timeout=60) as answer:
            return str(json.load(answer)["version"])
    except urllib.error.HTTPError:
        return ""


def observe(url: str) -> tuple[int, float]:
    """Return how many users the canary has, and which share of them gets no answer. Here these users are made up."""
    answers = [ask(url, f"user{number}") for number in range(USERS)]
    canary = sum(answer != "stable" for answer in answers)
    return canary, answers.count("") / max(1, canary)


def main(broken: bool = False, say: Callable[[str], None] = print) -> str:
    """Deploy both versions and shift the traffic; return the url."""
    serve.run(Price.bind("stable", 10.0), name="price", route_prefix="/price")
    serve.run(Price.bind("canary", 9.5, broken), name="price-canary", route_prefix=None)
    (proxy, *_) = serve.status()["proxies"].values()
    url = f"http://{proxy['address']}/price"
    for share in STEPS:
        serve.set_traffic("price", {"price": 1 - share, "price-canary": share}, sticky_by="header:x-user")
        users, failed = observe(url)
        say(f"canary {100 * share:2.0f} %: {users} of {USERS} users, {100 * failed:.0f} % of their requests failed")
        if failed > MOST_FAILURES:
            serve.set_traffic("price", {"price": 1})
            say("it fails: all traffic is back at the stable version")
            return url
    say("the canary is the stable version now")
    return url


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--broken", action="store_true", help="let the canary fail for some users")
    main(parser.parse_args().broken)
    print("Ctrl-C ends it.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
