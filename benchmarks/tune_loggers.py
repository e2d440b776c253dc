"""What it costs to log the results of trials, and with `--compare PYTHON` beside Ray in that Python.

python -m benchmarks.tune_loggers [--compare PYTHON] [--trials N] [--results N] [--rounds N]

The same results (22 keys, one dict in another, the configuration) of many trials that report in turn are logged, one by
one and in batches of ten, as JSON, CSV and TensorBoard events. CPU time of the one thread that does it, so that what
else the machine does matters little; the best round counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Row = tuple[str, float]


def result(number: int) -> dict[str, Any]:
    """Return what a trial reports, with what is filled in."""
    return {
        "score": 0.1 * number, "loss": 1 / number, "accuracy": 0.93, "lr": 0.001, "epoch": number,
        "evaluation": {"reward": 1.5 * number, "episodes": 2},
        "done": False, "hostname": "host", "trial_id": "a826033a", "experiment_id": "f" * 32,
        "experiment_tag": "0_x=1,y=3", "node_ip": "127.0.0.1", "pid": 1234, "date": "2026-01-01_00-00-00",
        "timestamp": 1_700_000_000 + number, "time_this_iter_s": 0.01, "time_total_s": 0.01 * number,
        "time_since_restore": 0.01 * number, "training_iteration": number, "iterations_since_restore": number,
        "config": {"x": 1.0, "y": 3},
    }  # fmt: skip


def kernel_side(folder: str, trials: int) -> tuple[list[Any], list[Any]]:
    """Return the loggers and trials of kernel."""
    from kernel_tune.loggers import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
    from kernel_tune.trial import Trial

    made = [
        Trial("f", config={"x": 1.0}, evaluated_params={"x": 1.0}, trial_id=f"{i:08x}", local_dir=folder, name=f"t{i}")
        for i in range(trials)
    ]
    return [JsonLoggerCallback(), CSVLoggerCallback(), TBXLoggerCallback()], made


def ray_side(folder: str, trials: int) -> tuple[list[Any], list[Any]]:
    """Return the loggers of Ray, and as much of a trial as they look at."""
    from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback

    class Trial:
        def __init__(self, number: int) -> None:
            self.config = self.evaluated_params = {"x": 1.0}
            self.local_path = f"{folder}/t{number}"
            self.checkpoint = None

        def init_local_path(self) -> None:
            Path(self.local_path).mkdir(parents=True, exist_ok=True)

    made = [Trial(number) for number in range(trials)]
    for trial in made:
        trial.init_local_path()
    loggers = [JsonLoggerCallback(), CSVLoggerCallback()]
    try:
        from ray.tune.logger import TBXLoggerCallback

        loggers.append(TBXLoggerCallback())
    except ImportError:
        print("tensorboardX is not in Ray's Python: without TensorBoard there", file=sys.stderr)
    return loggers, made


def measure(engine: str, trials: int, results: int) -> list[Row]:
    """Return microseconds a result of each logger, and of all together."""
    reports = [result(number) for number in range(1, results + 1)]
    rows: list[Row] = []
    for batch in (1, 10):
        total = 0.0
        with tempfile.TemporaryDirectory() as folder:
            loggers, made = (kernel_side if engine == "kernel" else ray_side)(folder, trials)
            for logger in loggers:
                for trial in made:
                    logger.on_trial_start(0, made, trial)
                begun = time.process_time()
                for begin in range(0, results, batch):
                    some = reports[begin : begin + batch]
                    for trial in made:
                        if engine == "kernel":
                            logger.on_trial_results(0, made, trial, some)
                        else:
                            for one in some:
                                logger.on_trial_result(0, made, trial, one)
                spent = (time.process_time() - begun) / trials / results * 1e6
                total += spent
                rows.append((f"{type(logger).__name__}, {batch} at a time", spent))
                for trial in made:
                    logger.on_trial_complete(0, made, trial)
        rows.append((f"all of them, {batch} at a time", total))
    return rows


def best(python: str, engine: str, given: argparse.Namespace) -> dict[str, float]:
    """Return the best of some rounds, each in a fresh process."""
    found: dict[str, float] = {}
    for _ in range(given.rounds):
        command = [python, __file__, "--engine", engine, "--trials", str(given.trials), "--results", str(given.results)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, value in json.loads(done.stdout.splitlines()[-1]):
            found[name] = min(value, found.get(name, value))
    return found


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the loggers of trials.")
    parser.add_argument("--compare", metavar="PYTHON", help="a Python that has Ray")
    parser.add_argument("--trials", type=int, default=100, help="how many report in turn (default: 100)")
    parser.add_argument("--results", type=int, default=100, help="how many each reports (default: 100)")
    parser.add_argument("--rounds", type=int, default=3, help="repeat, and show the best (default: 3)")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        print(json.dumps(measure(given.engine, given.trials, given.results)))
        return 0
    ours = best(sys.executable, "kernel", given)
    theirs = best(given.compare, "ray", given) if given.compare else {}
    print(f"{'microseconds of CPU a result':44s} {'kernel':>8s} {'Ray':>8s}")
    for name, value in ours.items():
        print(
            f"{name:44s} {value:8.1f} {theirs.get(name, float('nan')):8.1f}" if theirs else f"{name:44s} {value:8.1f}"
        )
    for batch in (1, 10):
        rate = 1e6 / ours[f"all of them, {batch} at a time"]
        print(f"{rate:,.0f} results/s on one core with all three, {batch} at a time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
