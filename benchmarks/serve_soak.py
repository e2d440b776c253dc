"""Serve under mixed traffic for as long as one likes: does the memory of its processes stay the same?

python -m benchmarks.serve_soak [--minutes 10] [--rate 200] [--calls 50] [--churn] [--json]
python -m benchmarks.serve_soak --applications 500

Shows the resident set of the controller, the proxy and the replicas over time, in MB, and at the end how much each
grew from the second quarter to the last, in MB an hour. Traffic is as in `benchmarks.serve_faults`, with large
bodies, requests that fail, and clients that go away besides. With `--churn` the application is updated, scaled, and
deployed anew beside itself all the while; then only the controller and the proxy last long enough to be compared.
With `--applications` there is no traffic: so many applications are deployed and deleted again, one after the other, and
shown is how much each of the last ones has cost the controller and the proxy.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from typing import Any

from benchmarks.memory_looks import memory_of
from benchmarks.serve_faults import Client
from kernel import serve
from plugins.serve.tests.scenes import Site, echo, site

LEAST_MB = 1.5
"""Less than this from the second quarter to the last is no growth: bodies of a megabyte come and go."""


def memory(pid: int) -> tuple[float, float]:
    """Return the resident and the proportional set of a process, in MB; zeros if it is gone."""
    found = memory_of(pid)
    return (found.resident, found.proportional) if found is not None else (0.0, 0.0)


def processes(place: Site) -> dict[str, int]:
    """Return the process ids of what Serve runs, by what it is."""
    found = {"controller": serve.status()["controller_pid"]}
    for number, row in enumerate(place.proxies()):
        found[f"proxy {number}"] = row["pid"]
    for number, row in enumerate(sorted(place.replicas(), key=lambda row: row["pid"])):
        found[f"replica {number}"] = row["pid"]
    return found


class OtherTraffic(threading.Thread):
    """Requests that are not short GETs: large ones, those that fail, and clients that go away."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.address = address
        self.ending = threading.Event()
        self.done = 0

    def run(self) -> None:
        """Send one after the other."""
        while not self.ending.wait(0.05):
            connection = http.client.HTTPConnection(self.address, timeout=30)
            try:
                kind = self.done % 4
                if kind == 0:
                    connection.request("POST", "/?large", b"x" * (1 << 20))
                    connection.getresponse().read()
                elif kind == 1:
                    connection.request("GET", "/%zz?" + "odd" * 500)
                    connection.getresponse().read()
                elif kind == 2:
                    connection.request("GET", "/?gone")  # and go before the answer comes
                else:
                    connection.putrequest("BREW", "/-/nothing")
                    connection.endheaders()
                    connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            self.done += 1


def churn(place: Site, ending: threading.Event) -> None:
    """Update, scale, deploy beside, delete, again and again."""
    number = 0
    while not ending.is_set():
        number += 1
        place.deploy(str(number), num_replicas=2 + number % 2)
        serve.run(echo("1", num_replicas=1, actor_options={"num_cpus": 0.1}), name=f"side{number}", route_prefix="/s")
        serve.delete(f"side{number}")


def soak(minutes: float, rate: float, calls: float, with_churn: bool, every: float) -> dict[str, Any]:
    """Return the memory of each process at each look, and what came of the traffic."""
    with site() as place:
        client = Client(place, rate, calls)
        other = OtherTraffic(place.addresses[0])
        other.start()
        ending = threading.Event()
        changing = threading.Thread(target=churn, args=(place, ending))
        if with_churn:
            changing.start()
        looks: list[dict[str, Any]] = []
        begun, names = time.monotonic(), processes(place)
        while (now := time.monotonic() - begun) < minutes * 60:
            if with_churn:
                names = {name: pid for name, pid in names.items() if "replica" not in name}
            found = {name: memory(pid) for name, pid in names.items()}
            looks.append({"seconds": round(now, 1), "memory": found})
            print(line(now, found), file=sys.stderr, flush=True)
            time.sleep(every)
        ending.set()
        if with_churn:
            changing.join()
        other.ending.set()
        other.join()
        return {"looks": looks, "growth": growth(looks), "other_requests": other.done, **client.end()}


def deploy_and_delete(count: int) -> None:
    """Deploy and delete so many applications, and print what they cost."""
    with site() as place:
        names = {name: pid for name, pid in processes(place).items() if "replica" not in name}
        before, step = {}, max(1, count // 10)
        for number in range(1, count + 1):
            serve.run(
                echo("1", num_replicas=1, actor_options={"num_cpus": 0.1}), name=f"side{number}", route_prefix="/s"
            )
            serve.delete(f"side{number}")
            if number % step == 0:
                now = {name: memory(pid)[0] for name, pid in names.items()}
                each = {name: (now[name] - before.get(name, now[name])) * 1024 / step for name in names}
                shown = "  ".join(f"{name} {now[name]:.1f} MB, {each[name]:.1f} KB each" for name in names)
                print(f"{number:8} applications  {shown}", flush=True)
                before = now


def line(seconds: float, found: dict[str, tuple[float, float]]) -> str:
    """Return one look as text."""
    return f"{seconds:8.0f} s  " + "  ".join(f"{name} {rss:.1f} ({pss:.1f})" for name, (rss, pss) in found.items())


def growth(looks: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return by process: MB at the first look, at the last, and the growth in MB an hour.

    The growth is from the mean of the second quarter to that of the last: at the beginning caches fill.
    """
    quarter = max(1, len(looks) // 4)
    early, late = looks[quarter : 2 * quarter], looks[-quarter:]
    hours = (late[len(late) // 2]["seconds"] - early[len(early) // 2]["seconds"]) / 3600 if early else 0.0
    found = {}
    for name in looks[0]["memory"]:
        more = _mean(late, name) - _mean(early, name) if early else 0.0
        found[name] = {
            "first": looks[0]["memory"][name][0],
            "last": looks[-1]["memory"][name][0],
            "grew": round(more, 2),
            "per_hour": round(more / hours, 2) if hours and more > LEAST_MB else 0.0,
        }
    return found


def _mean(looks: list[dict[str, Any]], name: str) -> float:
    return sum(float(look["memory"][name][0]) for look in looks) / len(looks)


def main() -> None:
    """Soak, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=200.0, help="HTTP requests a second (default: 200)")
    parser.add_argument("--calls", type=float, default=50.0, help="handle calls a second (default: 50)")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two looks (default: 10)")
    parser.add_argument("--churn", action="store_true", help="update and scale the application all the while")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--applications", type=int, default=0, help="deploy and delete so many, without traffic")
    given = parser.parse_args()
    if given.applications:
        deploy_and_delete(given.applications)
        return
    found = soak(given.minutes, given.rate, given.calls, given.churn, given.every)
    if given.json:
        print(json.dumps(found))
        return
    print("| process | MB at first | MB at last | grew since the second quarter | MB an hour |\n|---|---|---|---|---|")
    for name, row in found["growth"].items():
        print(f"| {name} | {row['first']:.1f} | {row['last']:.1f} | {row['grew']:.1f} | {row['per_hour']:.1f} |")
    for kind in ("http", "handle"):
        print(f"{kind}: {found[kind]['sent']} sent, {found[kind]['answered']} answered, {found[kind]['failed']} failed")


if __name__ == "__main__":
    main()
