"""Reinforcement learning: the speed of kernel.rllib beside Stable-Baselines3 and Ray's RLlib.

python -m benchmarks.rllib [--sb3 PYTHON] [--ray PYTHON] [--only WORD] [--rounds N] [--cpu]

Each step of each system runs in a process of its own, with the settings of `benchmarks.rllib_systems`. Systems take
turns; a ratio is the median of those of the rounds, and says how many times quicker kernel is. On a machine that others
use, --cpu counts CPU seconds of the process that trains instead of the clock's. What else there is to show is measured
by `benchmarks.rllib_learning` (how well algorithms learn) and `benchmarks.rllib_nn` (what an update costs).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SYSTEMS = Path(__file__).with_name("rllib_systems.py")
KERNEL = "kernel"
Figure = Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What it is called.
        step: The step that kernel runs.
        others: Which system runs which step beside it.
        goals: By system, how many times quicker kernel is to be.
        figure: What is shown: `"rate"`, steps a second; `"seconds"` of training; `"whole"`, seconds of the process.
        most: The greatest figure that is good, or None.
    """

    name: str
    step: str
    others: Mapping[str, str]
    goals: Mapping[str, float]
    figure: str = "rate"
    most: float | None = None
    units: Mapping[str, str] = field(default_factory=lambda: {"rate": "steps/s", "seconds": "s", "whole": "s"})


def beside(step: str) -> dict[str, str]:
    """Return that all systems run the same step."""
    return {"sb3": step, "ray": step}


ROWS = (
    Row("PPO CartPole-v1", "ppo", beside("ppo"), {"sb3": 3.5, "ray": 5}),
    Row("PPO CartPole-v1 until 450", "learned", {"sb3": "learned"}, {"sb3": 1 / 0.3}, "seconds", 15),
    Row("DQN CartPole-v1", "dqn", beside("dqn"), {"sb3": 2, "ray": 10}),
    Row("SAC Pendulum-v1, 256x256", "sac", beside("sac"), {"sb3": 1.3}),
    Row("PPO, 256 native lanes, 4 epochs", "native", {"sb3": "ppo"}, {"sb3": 25}),
    Row("import, build, first train()", "first", beside("first"), {}, "whole", 1.5),
    Row("PPO, 1 ms a step, 2 runners; alone", "slow, 2 runners", {KERNEL: "slow"}, {KERNEL: 1.8}),
    Row("the same, pipelined; alone", "slow, 2 runners, pipelined", {KERNEL: "slow"}, {}),
    Row("PPO, 2 runners, pipelined; alone", "ppo, 2 runners, pipelined", {KERNEL: "ppo"}, {KERNEL: 1.0}),
)


def measured(python: str, system: str, step: str, seed: int) -> dict[str, float]:
    """Run a step in a process of its own, and return what it counted and how long the process took."""
    began = time.perf_counter()
    command = [python, str(SYSTEMS), system, step, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    whole = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{system}, {step}:\n{done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "whole": whole}


def figure_of(kind: str, cpu: bool) -> Figure:
    """Return what makes the figure of a row of what was counted; of CPU seconds if `cpu`."""
    clock = "cpu" if cpu else "seconds"
    if kind == "rate":
        return lambda counted: counted["steps"] / counted[clock]
    return lambda counted: counted["whole" if kind == "whole" else clock]


def compared(row: Row, pythons: Mapping[str, str], rounds: Sequence[int], cpu: bool) -> str:
    """Return the line of a row: the medians of all systems, and the ratios with their goals."""
    steps = {KERNEL: row.step, **{f"{system} ": step for system, step in row.others.items() if system in pythons}}
    found: dict[str, list[float]] = {system: [] for system in steps}
    figure = figure_of(row.figure, cpu and KERNEL not in row.others)
    for seed in rounds:
        for system, step in steps.items():
            counted = measured(pythons[system.strip()], system.strip(), step, seed)
            found[system].append(figure(counted))
    shown = [f"{statistics.median(numbers):14,.1f}" for numbers in found.values()]
    ratios = []
    for system, numbers in found.items():
        if system == KERNEL:
            continue
        pairs = [own / other for own, other in zip(found[KERNEL], numbers, strict=True)]
        ratio = statistics.median(pairs) if row.figure == "rate" else 1 / statistics.median(pairs)
        goal = row.goals.get(system.strip())
        ratios.append(f"{ratio:.1f}x {system.strip()}" + (f" (goal {goal:.3g})" if goal else ""))
    if row.most is not None:
        ratios.append(f"at most {row.most:g}")
    return f"{row.name:36}" + "".join(shown) + f" {row.units[row.figure]:8}" + ", ".join(ratios)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sb3", metavar="PYTHON", help="a Python that has stable-baselines3")
    parser.add_argument("--ray", metavar="PYTHON", help="a Python that has Ray's RLlib")
    parser.add_argument("--only", default="", metavar="WORD", help="only rows with this word in their names")
    parser.add_argument("--rounds", type=int, default=3, help="how often all is run, each time with another seed")
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds, not the clock's")
    given = parser.parse_args()
    pythons = {KERNEL: sys.executable, "sb3": given.sb3, "ray": given.ray}
    pythons = {system: python for system, python in pythons.items() if python}
    print(f"{'':36}{'kernel':>14}" + "".join(f"{system:>14}" for system in pythons if system != KERNEL), flush=True)
    for row in ROWS:
        if given.only in row.name:
            print(compared(row, pythons, range(1, given.rounds + 1), given.cpu), flush=True)


if __name__ == "__main__":
    main()
