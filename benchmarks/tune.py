"""Hyperparameter search: what a trial and what a result cost, and the same in Ray Tune and Optuna.

python -m benchmarks.tune [--compare PYTHON] [--optuna PYTHON] [--only WORD] [--rounds N]

Each step runs in a process of its own; medians are shown. Ray's steps are smaller where it would take minutes: what
counts is the time for a trial, or the results in a second. Optuna runs trials in threads of one process, writes no
files, and keeps its study in memory: what it needs is the least that such a search can cost.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = {
    "100 trials of 3 reports, a process each": ("trials", {"trials": 100, "reports": 3}),
    "100 trials of 3 reports, processes reused": ("trials", {"trials": 100, "reports": 3, "reuse": True}),
    "10,000 trials of 1 report, processes reused": ("trials", {"trials": 10_000, "reports": 1, "reuse": True}),
    "500 trials at once": ("trials", {"trials": 500, "reports": 2, "cpu": 0.002, "seconds": 1.0}),
    "200 trials of 50 ms on 2 workers": ("trials", {"trials": 200, "reports": 1, "seconds": 0.05, "reuse": True}),
    "100,000 results of 2 trials, with all files": ("results", {"trials": 2, "reports": 50_000, "reuse": True}),
    "asha, 200 trials of up to 27 reports": ("trials", {"trials": 200, "reports": 27, "reuse": True, "asha": True}),
}
SMALLER = {"trials": 60, "reports": 500}
"""What Ray and Optuna run at most of each."""


def objective(config: dict[str, Any]) -> None:
    """Report as often as the configuration says, and take some time."""
    report = config["report"]
    for step in range(config["reports"]):
        if config["seconds"]:
            time.sleep(config["seconds"] / config["reports"])
        report({"loss": config["x"] / (step + 1)})


def with_kernel(given: dict[str, Any], folder: str) -> float:
    """Return the seconds that an experiment takes."""
    import kernel
    from kernel import tune

    kernel.init(num_cpus=2, log_to_driver=False)
    run, x = tune.run, tune.uniform(0, 1)  # what is imported for them was there before in Ray as well
    scheduler = None
    if given.get("asha"):
        scheduler = tune.schedulers.ASHAScheduler(
            metric="loss", mode="min", max_t=27, grace_period=1, reduction_factor=3
        )

    def trainable(config: dict[str, Any]) -> None:
        objective({**config, "report": tune.report})

    began = time.perf_counter()
    run(
        trainable, config={"x": x, "reports": given["reports"], "seconds": given.get("seconds", 0)},
        num_samples=given["trials"], reuse_actors=given.get("reuse", False), local_dir=folder, verbose=0,
        scheduler=scheduler, resources_per_trial={"cpu": given.get("cpu", 1)}, return_trials=True,
    )  # fmt: skip
    return time.perf_counter() - began


def with_ray(given: dict[str, Any], folder: str) -> float:
    """Return the seconds that an experiment takes in Ray."""
    import ray
    from ray import tune

    ray.init(num_cpus=2, logging_level="error", log_to_driver=False)
    scheduler = None
    if given.get("asha"):
        scheduler = tune.schedulers.ASHAScheduler(
            metric="loss", mode="min", max_t=27, grace_period=1, reduction_factor=3
        )

    def trainable(config: dict[str, Any]) -> None:
        objective({**config, "report": tune.report})

    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": given.get("cpu", 1)}),
        param_space={"x": tune.uniform(0, 1), "reports": given["reports"], "seconds": given.get("seconds", 0)},
        tune_config=tune.TuneConfig(
            num_samples=given["trials"], reuse_actors=given.get("reuse", False), scheduler=scheduler
        ),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    )
    began = time.perf_counter()
    tuner.fit()
    return time.perf_counter() - began


def with_optuna(given: dict[str, Any], folder: str) -> float:
    """Return the seconds that a study takes in Optuna, with two threads."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(reduction_factor=3) if given.get("asha") else None
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1), pruner=pruner)

    def run(trial: Any) -> float:
        steps = iter(range(given["reports"]))
        losses = []

        def report(metrics: dict[str, float]) -> None:
            losses.append(metrics["loss"])
            trial.report(metrics["loss"], next(steps))
            if pruner is not None and trial.should_prune():
                raise optuna.TrialPruned

        x = trial.suggest_float("x", 0, 1)
        objective({"x": x, "reports": given["reports"], "seconds": given.get("seconds", 0), "report": report})
        return losses[-1]

    began = time.perf_counter()
    study.optimize(run, n_trials=given["trials"], n_jobs=2)
    return time.perf_counter() - began


def measure(engine: str, python: str, step: str) -> float:
    """Run a step in a process of its own; return the trials or results in a second."""
    kind, given = STEPS[step]
    given = dict(given)
    if engine != "kernel":
        given |= {key: min(given[key], most) for key, most in SMALLER.items()}
    with tempfile.TemporaryDirectory() as folder:
        command = [python, os.path.abspath(__file__), "--engine", engine, json.dumps(given), folder]
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "RAY_DEDUP_LOGS": "0"})
    if result.returncode:
        raise SystemExit(f"{engine}, {step}:\n{result.stderr[-2000:]}")
    seconds = float(result.stdout.split()[-1])
    count = given["trials"] * (given["reports"] if kind == "results" else 1)
    return count / seconds


def main() -> None:
    """Measure, and print a table."""
    if sys.argv[1:2] == ["--engine"]:
        engine = {"kernel": with_kernel, "ray": with_ray, "optuna": with_optuna}[sys.argv[2]]
        print(engine(json.loads(sys.argv[3]), sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--compare", metavar="PYTHON", help="a Python that has Ray")
    parser.add_argument("--optuna", metavar="PYTHON", help="a Python that has Optuna")
    parser.add_argument("--only", default="", metavar="WORD", help="only steps with this word in their names")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    engines = {"kernel": sys.executable, "ray": given.compare, "optuna": given.optuna}
    engines = {engine: python for engine, python in engines.items() if python}
    print(f"{'step':46}" + "".join(f"{engine:>14}" for engine in engines) + f"{'to Ray':>9}")
    for step in STEPS:
        if given.only not in step:
            continue
        rates = {
            engine: statistics.median(measure(engine, python, step) for _ in range(given.rounds))
            for engine, python in engines.items()
        }
        unit = "results/s" if STEPS[step][0] == "results" else "trials/s"
        ratio = f"{rates['kernel'] / rates['ray']:8.1f}x" if "ray" in rates else ""
        print(f"{step:46}" + "".join(f"{rate:14,.1f}" for rate in rates.values()) + f"{ratio:>9} {unit}", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
