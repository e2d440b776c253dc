"""Kill the head of a real cluster at points spread over the life of its machines, and count what is left."""

from __future__ import annotations

from plugins.autoscaler.tests.head_deaths import mortal_cluster

LIFE_SECONDS = 12.0
"""From the first task to the end of the last machine, about."""


def measure(points: int) -> None:
    """Kill the head so many times, each time later in the life of the machines, and print what went wrong."""
    wrong = {}
    with mortal_cluster() as cluster:
        for number in range(points):
            delay = LIFE_SECONDS * number / points
            found = cluster.run(delay)
            if found:
                wrong[f"{delay:.1f} s"] = found
    print(f"heads killed: {points} points, {len(wrong)} wrong, nothing left {wrong or ''}", flush=True)
