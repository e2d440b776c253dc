"""The client of `benchmarks.serve_faults`, a process of its own: `python -m benchmarks.serve_load WORDS-AS-JSON`.

Prints a line when traffic flows, ends it at the end of its input, and prints what came of it as a line of JSON.
"""

from __future__ import annotations

import json
import sys

from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.testing.load import RequestLoad

import kernel


def main() -> None:
    """Send traffic, and say what came of it."""
    given = json.loads(sys.argv[1])
    kernel.init(address=given["session"], log_to_driver=False)
    handle = DeploymentHandle("Echo").options(retry=True, method_name="value")
    with RequestLoad(given["addresses"], given["rate"], call=handle.remote, calls=given["calls"]) as load:
        load.await_more(50)
        print("begun", flush=True)
        sys.stdin.read()
    print(json.dumps({"http": load.http.summary(), "handle": load.handle.summary()}))
    kernel.shutdown()


if __name__ == "__main__":
    main()
