"""Kills of the driver of an experiment, for each searcher and trial scheduler: does it end as one that was not killed?

python -m benchmarks.tune_kills [--kills 50] [--only WORD] [--seed N]

Each experiment is small and seeded, and runs in a process of its own: once to its end, and then again and again with
SIGKILL at random moments and a resume after each, until there were so many kills. Each that was killed must end with
the trials, statuses, configurations, results, files and checkpoints of the one that was not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP_SECONDS = 0.004
LONGEST = 300.0
"""Seconds after which an experiment that has not ended counts as stuck."""
SEARCHERS = ("variants", "random", "grid", "sobol", "tpe", "gp", "cmaes", "nelder_mead", "bohb", "repeater", "limiter")
SCHEDULERS = ("fifo", "asha", "hyperband", "hb_bohb", "median", "pbt", "pbt in step", "pb2", "pbt_replay", "resources")


# -- the experiment, in the process that is killed ---------------------------------------------------------------------


def searcher_of(name: str) -> Any:
    """Return a searcher by its name here."""
    from kernel.tune import searchers

    if name == "repeater":
        return searchers.Repeater(searchers.TPESearch(seed=1), repeat=2)
    if name == "limiter":
        return searchers.ConcurrencyLimiter(searchers.TPESearch(seed=1), 2, batch=True)
    return None if name == "variants" else name


def scheduler_of(name: str, policy: str) -> Any:
    """Return a scheduler by its name here; `policy` is the file that is replayed."""
    from kernel import tune
    from kernel.tune import schedulers

    population: dict[str, Any] = {"time_attr": "training_iteration", "perturbation_interval": 3, "seed": 4}
    mutations = {"hyperparam_mutations": {"x": tune.uniform(0, 1)}}
    makers: dict[str, Callable[[], Any]] = {
        "fifo": schedulers.FIFOScheduler,
        "asha": lambda: schedulers.ASHAScheduler(max_t=12, grace_period=2, reduction_factor=2),
        "hyperband": lambda: schedulers.HyperBandScheduler(max_t=9),
        "hb_bohb": lambda: schedulers.HyperBandForBOHB(max_t=9),
        "median": lambda: schedulers.MedianStoppingRule(
            time_attr="training_iteration", grace_period=2, min_samples_required=2, hard_stop=False
        ),
        "pbt": lambda: schedulers.PopulationBasedTraining(**population, **mutations),
        "pbt in step": lambda: schedulers.PopulationBasedTraining(**population, **mutations, synch=True),
        "pb2": lambda: schedulers.PB2(**population, hyperparam_bounds={"x": [0.0, 1.0]}),
        "pbt_replay": lambda: schedulers.PopulationBasedTrainingReplay(policy),
        "resources": lambda: schedulers.ResourceChangingScheduler(schedulers.ASHAScheduler(max_t=12, grace_period=2)),
    }
    return makers[name]()


def experiment(kind: str, name: str, folder: str) -> None:
    """Run or resume the experiment in a folder."""
    import kernel
    from kernel import tune

    class Walk(tune.Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.place = 0.0

        def step(self) -> dict[str, Any]:
            time.sleep(STEP_SECONDS)
            self.place += (self.config["x"] - 0.3) ** 2 / (1 + self.iteration) + 0.01 * self.config["y"]
            return {"score": self.place}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {"place": self.place}

        def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
            self.place = checkpoint["place"]

        def reset_config(self, new_config: dict[str, Any]) -> bool:
            return True

    kernel.init(num_cpus=3, log_to_driver=False, preload=["kernel_tune.trainable.actor"])
    space: dict[str, Any] = {"x": tune.uniform(0, 1), "y": tune.choice([1, 2, 3])}
    if name == "grid":
        space = {"x": tune.grid_search([0.1, 0.4, 0.7, 1.0]), "y": tune.grid_search([1, 2])}
    elif name in ("cmaes", "nelder_mead"):
        space = {"x": tune.uniform(0, 1), "y": tune.uniform(1, 3)}
    samples = {"grid": 1, "pbt_replay": 1}.get(name, 8)
    is_searcher = kind == "searcher"
    tune.run(
        Walk, name="walk", local_dir=folder, config=space, num_samples=samples, metric="score", mode="min",
        stop={"training_iteration": 40 if name == "pbt_replay" else 12},
        search_alg=searcher_of(name) if is_searcher else None,
        scheduler=None if is_searcher else scheduler_of(name, os.path.join(os.path.dirname(folder), "policy.txt")),
        checkpoint_freq=2, keep_checkpoints_num=2, checkpoint_score_attr="min-score", checkpoint_at_end=True,
        resume="AUTO", seed=7, deterministic=True, reuse_actors=True, verbose=0, global_checkpoint_period=0.1,
    )  # fmt: skip


# -- what is compared --------------------------------------------------------------------------------------------------


def outcome(folder: Path) -> dict[str, Any]:
    """Return everything of an experiment that must not depend on kills."""
    home = folder / "walk"
    state = json.loads((home / "experiment_state.json").read_text())
    found: dict[str, Any] = {path.name: path.read_text() for path in sorted(home.glob("pbt_*.txt"))}
    for trial in state["trials"]:
        place = Path(trial["logdir"])
        lines = [json.loads(line) for line in (place / "result.json").read_text().splitlines()]
        found[trial["trial_id"]] = {
            "status": trial["status"],
            "config": trial["config"],
            "tag": trial["experiment_tag"],
            "results": [(line["training_iteration"], line["score"], line["done"], line["config"]) for line in lines],
            "rows": len((place / "progress.csv").read_text().splitlines()),
            "checkpoints": [os.path.basename(path) for path in trial["checkpoints"]],
            "directories": sorted(path.name for path in place.iterdir() if path.is_dir()),
        }
    found["left over"] = sorted(path.name for path in home.iterdir() if path.name.startswith("."))
    return found


def differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Say where two outcomes differ first."""
    for key in {**one, **other}:
        left, right = one.get(key), other.get(key)
        if left == right:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            return next(f"{key}: {name} {left[name]} became {right[name]}" for name in left if left[name] != right[name])
        return f"{key}: {left} became {right}"
    return ""


# -- running and killing -----------------------------------------------------------------------------------------------


def start(kind: str, name: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the experiment in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.tune_kills", "--child", kind, name, str(folder)]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process. Raises RuntimeError with what it said if it failed, or did not end."""
    try:
        _, errors = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        raise RuntimeError(f"did not end within {LONGEST:.0f} seconds") from None
    if process.returncode:
        raise RuntimeError(errors.decode(errors="replace").strip()[-1500:])


def log_size(folder: Path) -> int:
    """Return how many bytes the log of the experiment has."""
    try:
        return (folder / "walk" / "experiment.log").stat().st_size
    except FileNotFoundError:
        return 0


def killed_run(kind: str, name: str, folder: Path, kills: int, size: int, dice: random.Random) -> tuple[int, int]:
    """Run an experiment that is killed up to `kills` times; return how often it was, and how often it resumed.

    A kill comes a random time after the log has begun to grow: mostly as trials run, now and then as it resumes.
    """
    done = resumes = 0
    while True:
        before = log_size(folder)
        process = start(kind, name, folder)
        resumes += before > 0
        if done == kills:
            finish(process)
            return done, resumes
        if not wait_for_moment(process, folder, before, size, dice):
            finish(process)
            return done, resumes
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        done += 1


def wait_for_moment(
    process: subprocess.Popen[bytes], folder: Path, before: int, size: int, dice: random.Random
) -> bool:
    """Wait for a moment to kill; False if the process has ended before it."""
    at_start = dice.random() < 0.15
    wanted = 0 if at_start else before + dice.uniform(0.02, 0.5) * size
    deadline = time.monotonic() + (dice.uniform(0.2, 1.5) if at_start else LONGEST)
    while time.monotonic() < deadline and (at_start or log_size(folder) < wanted):
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    time.sleep(dice.uniform(0, 0.01))
    return process.poll() is None


def judge(kind: str, name: str, kills: int, seed: int, folder: Path) -> tuple[int, int, int, str]:
    """Return of one searcher or scheduler: kills, resumes, runs, and what differed."""
    dice = random.Random(f"{seed} {kind} {name}")
    whole = folder / "whole"
    if name == "pbt_replay":
        finish(start(kind, "pbt", folder / "recorded"))
        policy = next(path for path in sorted((folder / "recorded" / "walk").glob("pbt_policy_*.txt")))
        (folder / "policy.txt").write_bytes(policy.read_bytes())
    finish(start(kind, name, whole))
    expected = outcome(whole)
    done = resumes = runs = 0
    while done < kills:
        runs += 1
        target = folder / f"killed {runs}"
        more, again = killed_run(kind, name, target, kills - done, log_size(whole), dice)
        done, resumes = done + more, resumes + again
        found = differences(expected, outcome(target))
        if found:
            return done, resumes, runs, found
    return done, resumes, runs, ""


def main() -> int:
    """Kill, compare, and print a table."""
    if sys.argv[1:2] == ["--child"]:
        experiment(*sys.argv[2:5])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how many for each (default: 50)")
    parser.add_argument("--only", default="", metavar="WORD", help="only names with this word")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments of the kills")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the experiments there")
    options = parser.parse_args()
    names = [("searcher", name) for name in SEARCHERS] + [("scheduler", name) for name in SCHEDULERS]
    print("| | name | kills | resumes | runs | equal |\n|---|---|---|---|---|---|", flush=True)
    bad = 0
    for kind, name in names:
        if options.only not in f"{kind} {name}":
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(options.keep or temporary) / f"{kind} {name}"
            try:
                kills, resumes, runs, found = judge(kind, name, options.kills, options.seed, folder)
            except RuntimeError as error:
                kills, resumes, runs, found = 0, 0, 0, str(error)
        bad += bool(found)
        print(f"| {kind} | {name} | {kills} | {resumes} | {runs} | {found or 'yes'} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
