"""A running experiment, inspected and changed from outside by the tune server and its client.

python -m kernel_tune.examples.server_example [--smoke-test]

The client would be another program, on this machine or at the other end of `ssh -L 4321:localhost:4321`. It needs the
token, which is in the experiment's `server.token`. Here it is a thread.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from typing import Any

from kernel import tune
from kernel.tune.server.client import TuneClient

PORT = 14322


def wait(config: dict[str, Any]) -> None:
    """Report until the trial is stopped."""
    while True:
        tune.report({"number": config["number"]})
        time.sleep(0.01)


class Visitor(tune.Callback):
    """When a trial has reported: lists the trials, adds one, and stops everything when that one has reported."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._thread: threading.Thread | None = None

    def setup(self, *args: Any, local_dir: str = "", **info: Any) -> None:
        self._token_file = os.path.join(local_dir, "server.token")

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._visit, daemon=True)
            self._thread.start()

    def _visit(self) -> None:
        with open(self._token_file, encoding="utf-8") as file:
            client = TuneClient("127.0.0.1", PORT, token=file.read())
        first = client.get_all_trials()[0]
        self.seen.append(first["status"])
        (added,) = client.add_trial("added", {"run": "wait", "config": {"number": 2}})
        while "number" not in (trial := client.get_trial(added))["result"]:
            time.sleep(0.01)
        self.seen.append(f"{trial['config']['number']} was added")
        client.stop_trial(first["id"])
        client.stop_experiment()

    def get_state(self) -> None:
        """Keep no state: a visit is not resumed."""


def main(smoke_test: bool = False) -> Any:
    """Run until the visitor ends it. Return what it has seen, and the trials."""
    visitor = Visitor()
    tune.register_trainable("wait", wait)
    trials = tune.run(
        "wait",
        name="served",
        config={"number": 1},
        with_server=True,
        server_port=PORT,
        callbacks=[visitor],
        return_trials=True,
        verbose=0 if smoke_test else 1,
    )
    return visitor.seen, trials


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the example.")
    parser.add_argument("--smoke-test", action="store_true", help="finish quickly")
    print("seen:", main(parser.parse_args().smoke_test)[0])
