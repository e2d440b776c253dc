"""Kills of the driver of an experiment, for each searcher and trial scheduler: does it end as one that was not killed?

python -m benchmarks.tune_kills [--kills 50] [--only WORD] [--seed N]

Each experiment is small and seeded, and its driver is a process of its own in a session that stays: once to its end,
and then again and again with SIGKILL at random moments and a resume after each, until there were so many kills. Each
that was killed must end with the trials, statuses, configurations, results, files and checkpoints of the one that was
not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel_tune.execution.run  # noqa: F401 - in this process, for all that are forked from it

import kernel
from kernel import tune
from kernel.testing.cluster import Cluster
from kernel.tune import schedulers, searchers

STEP_SECONDS = 0.004
LONGEST = 300.0
"""Seconds after which an experiment that has not ended counts as stuck."""
SEARCHERS = ("variants", "random", "grid", "sobol", "tpe", "gp", "cmaes", "nelder_mead", "bohb", "repeater", "limiter")
SCHEDULERS = ("fifo", "asha", "hyperband", "hb_bohb", "median", "pbt", "pbt in step", "pb2", "pbt_replay", "resources")


# -- the experiment, in the process that is killed ---------------------------------------------------------------------


def searcher_of(name: str) -> Any:
    """Return a searcher by its name here."""
    if name == "repeater":
        return searchers.Repeater(searchers.TPESearch(seed=1), repeat=2)
    if name == "limiter":
        return searchers.ConcurrencyLimiter(searchers.TPESearch(seed=1), 2, batch=True)
    return None if name == "variants" else name


def scheduler_of(name: str, policy: str) -> Any:
    """Return a scheduler by its name here; `policy` is the file that is replayed."""
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


def experiment(session: str, kind: str, name: str, folder: str) -> None:
    """Run or resume the experiment in a folder, in the session that is there."""
    kernel.init(address=session, log_to_driver=False)

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
            self.place = 0.0
            return True

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
        lines = [json.loads(line) for line in lines_of(place / "result.json")]
        found[trial["trial_id"]] = {
            "status": trial["status"],
            "config": trial["config"],
            "tag": trial["experiment_tag"],
            "results": [(line["training_iteration"], line["score"], line["done"], line["config"]) for line in lines],
            "rows": len(lines_of(place / "progress.csv")),
            "checkpoints": [os.path.basename(path) for path in trial["checkpoints"]],
            "directories": sorted(path.name for path in place.iterdir() if path.is_dir()),
        }
    found["left over"] = sorted(path.name for path in home.iterdir() if path.name.startswith("."))
    return found


def lines_of(path: Path) -> list[str]:
    """Return the lines of a file, none if it is not there."""
    return path.read_text().splitlines() if path.exists() else []


def differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Say where two outcomes differ first."""
    for key in {**one, **other}:
        left, right = one.get(key), other.get(key)
        if left == right:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            return next(
                f"{key}: {name} {left[name]} became {right[name]}" for name in left if left[name] != right[name]
            )
        return f"{key}: {left} became {right}"
    return ""


# -- running and killing -----------------------------------------------------------------------------------------------


class TuneProgram:
    """A program that runs the experiment: a fork of this process, in which everything is imported already."""

    def __init__(self, session: str, kind: str, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = folder / "errors.txt"
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        code = 1
        try:
            with open(self._errors, "w") as errors:
                os.dup2(errors.fileno(), 2)
            experiment(session, kind, name, str(folder))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def poll(self) -> int | None:
        """Return the exit code, None if it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def kill(self) -> None:
        """Kill it, at once."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def finish(self) -> None:
        """Wait for its end. Raises RuntimeError with what it said if it failed, or did not end."""
        deadline = time.monotonic() + LONGEST
        while self.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"did not end within {LONGEST:.0f} seconds: {self._errors.read_text()[-800:]}")
            time.sleep(0.005)
        if self._code:
            raise RuntimeError(self._errors.read_text().strip()[-1500:])


def log_size(folder: Path) -> int:
    """Return how many bytes the log of the experiment has."""
    try:
        return (folder / "walk" / "experiment.log").stat().st_size
    except FileNotFoundError:
        return 0


def killed_run(
    start: Callable[[Path], TuneProgram], folder: Path, kills: int, size: int, dice: random.Random
) -> tuple[int, int]:
    """Run an experiment that is killed up to `kills` times; return how often it was, and how often it resumed.

    A kill comes a random time after the log has begun to grow: mostly as trials run, now and then as it resumes.
    """
    done = resumes = 0
    while True:
        before = log_size(folder)
        process = start(folder)
        resumes += before > 0
        if done == kills:
            process.finish()
            return done, resumes
        if not wait_for_moment(process, folder, before, size, dice):
            process.finish()
            return done, resumes
        process.kill()
        done += 1


def wait_for_moment(process: TuneProgram, folder: Path, before: int, size: int, dice: random.Random) -> bool:
    """Wait for a moment to kill; False if the process has ended before it."""
    at_start = dice.random() < 0.15
    wanted = 0 if at_start else before + dice.uniform(0.02, 0.5) * size
    deadline = time.monotonic() + (dice.uniform(0.0, 0.5) if at_start else LONGEST)
    while time.monotonic() < deadline and (at_start or log_size(folder) < wanted):
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    time.sleep(dice.uniform(0, 0.01))
    return process.poll() is None


def judge(session: str, kind: str, name: str, kills: int, seed: int, folder: Path) -> tuple[int, int, int, str]:
    """Return of one searcher or scheduler: kills, resumes, runs, and what differed."""
    dice = random.Random(f"{seed} {kind} {name}")
    whole = folder / "whole"
    if name == "pbt_replay":
        TuneProgram(session, kind, "pbt", folder / "recorded").finish()
        policy = next(path for path in sorted((folder / "recorded" / "walk").glob("pbt_policy_*.txt")))
        (folder / "policy.txt").write_bytes(policy.read_bytes())

    def start(target: Path) -> TuneProgram:
        return TuneProgram(session, kind, name, target)

    start(whole).finish()
    expected = outcome(whole)
    done = resumes = runs = 0
    while done < kills:
        runs += 1
        target = folder / f"killed {runs}"
        more, again = killed_run(start, target, kills - done, log_size(whole), dice)
        done, resumes = done + more, resumes + again
        found = differences(expected, outcome(target))
        if found:
            return done, resumes, runs, found
    return done, resumes, runs, ""


def main() -> int:
    """Kill, compare, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="how many for each (default: 50)")
    parser.add_argument("--only", default="", metavar="WORD", help="only names with this word")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the moments of the kills")
    parser.add_argument("--keep", metavar="FOLDER", help="keep the experiments there")
    options = parser.parse_args()
    every = [("searcher", name) for name in SEARCHERS] + [("scheduler", name) for name in SCHEDULERS]
    names = [pair for pair in every if options.only == " ".join(pair)]
    names = names or [pair for pair in every if options.only in " ".join(pair)]
    print("| | name | kills | resumes | runs | equal |\n|---|---|---|---|---|---|", flush=True)
    bad = 0
    with Cluster(num_cpus=3, preload=["kernel_tune.trainable.actor"]) as cluster, tempfile.TemporaryDirectory() as home:
        for kind, name in names:
            folder = Path(options.keep or home) / f"{kind} {name}"
            try:
                found = judge(cluster.head.directory, kind, name, options.kills, options.seed, folder)
            except RuntimeError as error:
                found = (0, 0, 0, str(error))
            bad += bool(found[3])
            print(f"| {kind} | {name} | {found[0]} | {found[1]} | {found[2]} | {found[3] or 'yes'} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
