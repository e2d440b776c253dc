"""Two experiments that stop in their midst: the program that made what lies beside it.

`python walks.py make FOLDER` made it while all of `kernel_runs` was in `kernel_tune`: `climbs` was interrupted (a
class, by a `Tuner`), `descents` killed (a function, by `tune.run`), and `objects.pkl` holds what programs pickle
themselves. `python walks.py finish FOLDER` goes on with both, and prints as JSON what has become of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import cloudpickle

import kernel
from kernel import tune
from kernel.tune import loggers, schedulers
from kernel.tune.execution.resources import Resources
from kernel.tune.trainable.function import wrap_function


class Climb(tune.Trainable):
    """Climbs at the pace of `x`; whoever is too quick falls after the third step, as often as it tries."""

    def setup(self, config: dict[str, Any]) -> None:
        self.height = 0.0

    def step(self) -> dict[str, Any]:
        if self.config["x"] > 0.8 and self.iteration == 3:
            raise FallError("fell from", self.height)
        self.height += self.config["x"] / (1 + self.iteration)
        return {"height": self.height, "inner": {"twice": 2 * self.height}}

    def save_checkpoint(self, checkpoint_dir: str) -> str:
        Path(checkpoint_dir, "height.txt").write_text(repr(self.height))
        return checkpoint_dir

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.height = float(Path(checkpoint, "height.txt").read_text())

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.setup(new_config)
        return True


class FallError(ValueError):
    """What a trial of the golden experiment raises."""


def descend(config: dict[str, Any]) -> None:
    """Goes down by `x` at each step, with a checkpoint of every second one."""
    checkpoint = tune.get_checkpoint()
    state = checkpoint.to_dict() if checkpoint is not None else {"step": 0, "depth": 0.0}
    for step in range(state["step"] + 1, 9):
        state = {"step": step, "depth": state["depth"] - config["x"]}
        tune.report({"depth": state["depth"]}, checkpoint=None if step % 2 else tune.Checkpoint.from_dict(state))


def named(trial: tune.Trial) -> str:
    """Return the name of a trial."""
    return f"climb_{trial.index}"


class Stops(tune.Callback):
    """Ends the program by a signal when the trials have reported so often."""

    def __init__(self, count: int, number: signal.Signals) -> None:
        self.left, self.number = count, number

    def on_trial_result(self, *arguments: Any, **info: Any) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


def climber() -> Any:
    """Return the class with what its trials need."""
    return tune.with_resources(Climb, tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 0.5}]))


def climbs(folder: str, callbacks: list[tune.Callback]) -> tune.Tuner:
    """Return the tuner of the first experiment."""
    return tune.Tuner(
        climber(),
        param_space={"x": tune.uniform(0, 1), "fixed": [1, {"two": 2}]},
        tune_config=tune.TuneConfig(
            metric="height", mode="max", num_samples=6, seed=7, deterministic=True, reuse_actors=True,
            trial_name_creator=named, scheduler=schedulers.ASHAScheduler(max_t=8, grace_period=2, reduction_factor=2),
        ),
        run_config=tune.RunConfig(
            name="climbs", storage_path=folder, stop={"training_iteration": 8}, verbose=0, callbacks=callbacks,
            checkpoint_config=tune.CheckpointConfig(
                num_to_keep=2, checkpoint_score_attribute="height", checkpoint_frequency=2, checkpoint_at_end=True
            ),
            failure_config=tune.FailureConfig(max_failures=1), sync_config=tune.SyncConfig(sync_period=600),
        ),
    )  # fmt: skip


def descents(folder: str, callbacks: list[tune.Callback], resume: bool = False) -> None:
    """Run the second experiment."""
    tune.run(
        descend, name="descents", local_dir=folder, config={"x": tune.grid_search([0.5, 1.5, 2.5])}, num_samples=2,
        metric="depth", mode="min", seed=3, deterministic=True, keep_checkpoints_num=2, verbose=0,
        global_checkpoint_period=3600, callbacks=callbacks, resume=resume,
    )  # fmt: skip


def objects() -> dict[str, Any]:
    """Return what programs keep in pickles of their own."""
    return {
        "settings": tune.RunConfig(name="kept", checkpoint_config=tune.CheckpointConfig(num_to_keep=3)),
        "class": Climb,
        "function": wrap_function(descend),
        "checkpoint": tune.Checkpoint("memory://kept/checkpoint_000002"),
        "bundles": tune.PlacementGroupFactory([{"CPU": 1}], strategy="SPREAD"),
        "resources": Resources(cpu=2),
        "callbacks": [loggers.JsonLoggerCallback(), loggers.TBXLoggerCallback(), loggers.WandbLoggerCallback("mine")],
        "error": tune.TrialError("it failed"),
        "trial": tune.Trial("descend", {"x": 1}, "0000abcd", last_result={"depth": -1.0}),
        "base": tune.Trainable,
    }


def outcome(folder: str) -> list[Any]:
    """Return what has become of both experiments: trials, statuses, every result, and the checkpoints that are kept."""
    rows: list[Any] = []
    for name, metric in (("climbs", "height"), ("descents", "depth")):
        state = json.loads(Path(folder, name, "experiment_state.json").read_text())
        for trial in state["trials"]:
            directory = Path(trial["logdir"])
            results = [json.loads(line) for line in (directory / "result.json").read_text().splitlines()]
            reports = [(each["training_iteration"], each[metric]) for each in results]
            table = len((directory / "progress.csv").read_text().splitlines())
            kept = sorted(path.name for path in directory.glob("checkpoint_*"))
            rows.append(
                [trial["name"], trial["status"], trial["config"], trial["experiment_tag"], reports, table, kept]
            )
    return rows


def started(folder: str, name: str, count: int, number: signal.Signals) -> None:
    """Run an experiment in another process, which ends by a signal after so many results."""
    child = os.fork()
    if child == 0:
        kernel.init(num_cpus=4, log_to_driver=False)
        if name == "climbs":
            climbs(folder, [Stops(count, number)]).fit()
        else:
            descents(folder, [Stops(count, number)])
        os._exit(0)
    os.waitpid(child, 0)


def make(folder: str) -> None:
    """Make what lies beside this, in a folder that is there."""
    with tempfile.TemporaryDirectory() as whole:
        started(whole, "climbs", 1000, signal.SIGINT)
        started(whole, "descents", 1000, signal.SIGINT)
        Path(folder, "outcome.json").write_text(json.dumps(outcome(whole), indent=1) + "\n")
    started(folder, "climbs", 13, signal.SIGINT)
    started(folder, "descents", 13, signal.SIGKILL)
    with open(os.path.join(folder, "objects.pkl"), "wb") as file:
        cloudpickle.dump(objects(), file, protocol=5)


def finish(folder: str) -> None:
    """Go on with both experiments, and print what has become of them and of the objects."""
    kernel.init(num_cpus=4, log_to_driver=False)
    tune.Tuner.restore(os.path.join(folder, "climbs"), climber()).fit()
    descents(folder, [], resume=True)
    print(json.dumps(outcome(folder)))


if __name__ == "__main__":
    import walks  # by its own name: what is pickled says it

    {"make": walks.make, "finish": walks.finish}[sys.argv[1]](os.path.abspath(sys.argv[2]))
