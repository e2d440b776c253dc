"""The options that all ways to train have, and those that only Tune acts on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from kernel.commands import Refusal
from kernel_rllib.cli.parameters import JsonObject

_OF_TUNE = (
    "--export-formats", "--max-failures", "--resources-per-trial", "--scheduler", "--scheduler-config", "--upload-dir",
)  # fmt: skip
_FLAGS_OF_TUNE = ("--queue-trials", "--sync-on-checkpoint")


def _refuse(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is not None:
        raise Refusal(
            f"only Tune acts on {parameter.opts[0]}: call kernel.tune.run(...) or kernel.tune.run_experiments(...), or "
            "leave it out"
        )


_OPTIONS = (
    click.option("--stop", type=JsonObject(), metavar="JSON", help="Metrics, and the values that end the run."),
    click.option("--checkpoint-freq", type=click.IntRange(0), metavar="N", help="Save after every N iterations."),
    click.option(
        "--checkpoint-at-end/--no-checkpoint-at-end", default=None, help="Save at the end (the default), or not."
    ),
    click.option("--keep-checkpoints-num", type=click.IntRange(1), metavar="N", help="Keep N checkpoints."),
    click.option(
        "--checkpoint-score-attr", metavar="METRIC", help="Keep those with most of it; 'min-METRIC': with least."
    ),
    click.option("--local-dir", "--storage-path", metavar="DIR", help="Where the experiment's directory goes."),
    click.option("--experiment-name", "-name", "-n", metavar="NAME", help="What the experiment is called."),
    click.option("--num-samples", type=click.IntRange(1), metavar="N", help="Run each combination N times."),
    click.option("--restore", metavar="CHECKPOINT", help="Go on from this checkpoint."),
    click.option("--resume/--no-resume", default=False, help="Go on with the runs that were interrupted."),
    click.option("--seed", type=int, metavar="N", help="The seed of all randomness."),
    click.option("--framework", metavar="NAME", help="What computes updates: numpy, torch, auto."),
    click.option("--torch", "is_torch", is_flag=True, help="The same as --framework torch."),
    click.option("--eager", is_flag=True, help="TensorFlow's eager mode, for models written in it."),
    click.option("--trace", is_flag=True, help="Trace functions in eager mode."),
    click.option("-v", "verbosity", count=True, help="Log more: -v INFO, -vv DEBUG."),
    click.option("--ray-address", "--address", metavar="ADDRESS", help="The cluster that runners are in."),
    click.option("--ray-num-cpus", type=float, metavar="N", help="How many CPUs runners may use."),
    click.option("--ray-num-gpus", type=float, metavar="N", help="How many GPUs they may use."),
    click.option("--ray-object-store-memory", type=int, metavar="BYTES", help="The size of the object store."),
    click.option("--local-mode", is_flag=True, help="Run runners in this process, one after another."),
    click.option("--no-ray-ui", is_flag=True, hidden=True, expose_value=False, help="There is none."),
    *(
        click.option(name, hidden=True, expose_value=False, callback=_refuse, help="Needs Tune.")
        for name in _OF_TUNE
    ),
    *(
        click.option(name, hidden=True, expose_value=False, callback=_refuse, is_flag=True, default=None)
        for name in _FLAGS_OF_TUNE
    ),
)  # fmt: skip


def train_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that all ways to train have."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
