"""The parts of the training commands: experiments with the options of a command line, and their progress."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import kernel
from kernel.commands import Refusal
from kernel_rllib.cli.display import Lines, Picture, display_for
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.running import run_experiment
from kernel_rllib.experiments.training import Outcome
from kernel_runs.process.interrupts import TrialInterrupts

_OF_EXPERIMENTS = {
    "stop": "stop",
    "checkpoint_freq": "checkpoint_freq",
    "checkpoint_at_end": "checkpoint_at_end",
    "keep_checkpoints_num": "keep_checkpoints_num",
    "checkpoint_score_attr": "checkpoint_score_attr",
    "local_dir": "local_dir",
    "experiment_name": "name",
    "num_samples": "num_samples",
    "restore": "restore",
}
"""The options of an experiment, and the attributes that they set."""
_OF_SESSIONS = {
    "ray_num_cpus": "num_cpus",
    "ray_num_gpus": "num_gpus",
    "ray_object_store_memory": "object_store_memory",
    "local_mode": "local_mode",
}
"""The options of the session, and the arguments of `kernel.init` that they set."""


def train_experiments(experiments: list[Experiment], options: Mapping[str, Any], note: str = "") -> None:
    """Train experiments one after another, and tell where the results are.

    The first Ctrl-C ends the run after its iteration, with a checkpoint.

    Args:
        experiments: The experiments to train.
        options: Those of `train_options`, by their names.
        note: The text that is said before.

    Raises:
        KeyboardInterrupt: After an interrupted run was saved.
    """
    if options.get("experiment_name") and len(experiments) > 1:
        raise Refusal(f"--experiment-name can't name {len(experiments)} experiments: the file has names for them")
    experiments = [with_options(experiment, options) for experiment in experiments]
    _log(options.get("verbosity") or 0)
    _start(options)
    shown = display_for(sys.stdout)
    if note:
        shown.say(note)
    with TrialInterrupts() as interrupts:
        try:
            for experiment in experiments:
                resume = bool(options.get("resume"))
                ended = run_experiment(experiment, shown, resume=resume, is_stopping=lambda: interrupts.count > 0)
                for outcome in ended:
                    shown.close()
                    _tell(shown, outcome)
                    if outcome.is_interrupted:
                        raise KeyboardInterrupt
        finally:
            shown.close()


def with_options(experiment: Experiment, options: Mapping[str, Any]) -> Experiment:
    """Return an experiment with what the command line says of it."""
    changes = {attribute: options[name] for name, attribute in _OF_EXPERIMENTS.items() if options.get(name) is not None}
    settings: dict[str, Any] = {}
    if options.get("is_torch") or options.get("framework"):
        settings["framework"] = options.get("framework") or "torch"
    for name, key in (("eager", "eager"), ("trace", "eager_tracing")):
        if options.get(name):
            settings[key] = True
    if options.get("seed") is not None:
        settings["seed"] = options["seed"]
    if options.get("verbosity"):
        settings["log_level"] = "INFO" if options["verbosity"] == 1 else "DEBUG"
    return experiment.with_(**changes, config={**experiment.config, **settings})


def _log(verbosity: int) -> None:
    if verbosity:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("kernel.rllib").setLevel(logging.INFO if verbosity == 1 else logging.DEBUG)


def _start(options: Mapping[str, Any]) -> None:
    """Start or join a session where the command line says anything of it; otherwise runners start one."""
    given = {argument: options[name] for name, argument in _OF_SESSIONS.items() if options.get(name)}
    address = options.get("ray_address")
    if given or address:
        kernel.init(address, ignore_reinit_error=True, **given)


def _tell(shown: Lines | Picture, outcome: Outcome) -> None:
    """Say how a run ended, where its files are, and what to do with them."""
    shown.say("")
    shown.say(f"ended:      {outcome.reason}")
    shown.say(f"results:    {outcome.run.logdir}")
    if outcome.checkpoint:
        shown.say(f"checkpoint: {outcome.checkpoint}")
        shown.say(f"evaluate:   rllib evaluate {outcome.checkpoint}")
