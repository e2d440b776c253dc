"""Show what an autoscaler says of itself, and what a simulation came to, as text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any


def shown_status(status: Mapping[str, Any]) -> str:
    """Return the text of `kernel autoscaler status`."""
    lines = [
        f"provider {status['provider']}, {status['price']:.2f} per hour now, {status['spent']:.2f} so far, "
        f"{status['spent_idle']:.2f} of it idle",
        "",
        f"{'KIND':<20} {'THERE':>6} {'COMING':>6} {'LEAVING':>7} {'PRICE':>8}",
    ]
    for kind in status["kinds"]:
        price = "unknown" if kind["price"] is None else f"{kind['price']:.3f}"
        line = f"{kind['name']:<20} {kind['running']:>6} {kind['coming']:>6} {kind['leaving']:>7} {price:>8}"
        lines.append(f"{line}  {kind['closed']}".rstrip())
    if status["unmet"]:
        lines += ["", "no machine for", *(f"  {what}: {why}" for what, why in status["unmet"])]
    if status["decisions"]:
        lines += ["", "decisions, the latest last"]
        lines += [f"  {_time(one['at'])} {one['what']}: {one['why']}" for one in status["decisions"][-10:]]
    return "\n".join(lines)


def shown_outcome(outcome: Mapping[str, Any]) -> str:
    """Return the text of `kernel autoscaler simulate`."""
    waits = outcome["waits"]
    lines = [
        f"served     {outcome['served']}, {outcome['waiting']} still wait",
        f"machines   {outcome['launched']} made, {outcome['most_machines']} at most at a time",
        f"cost       {outcome['cost']:.2f}, {outcome['idle_cost']:.2f} of it idle",
        f"waiting    half {_share(waits, 0.5):.1f} s, 99 % {_share(waits, 0.99):.1f} s at most",
    ]
    return "\n".join([*lines, *(f"no machine for {what}: {why}" for what, why in outcome["unmet"])])


def _share(waits: Sequence[float], share: float) -> float:
    return waits[min(len(waits) - 1, int(len(waits) * share))] if waits else 0.0


def _time(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
