"""`rllib train`: an algorithm in an environment, or the experiments of a file."""

from __future__ import annotations

from typing import Any

import click

from kernel.commands import CommandGroup, Refusal
from kernel_rllib.cli.parameters import JsonObject, complete_algorithm, complete_env
from kernel_rllib.cli.train_options import train_options
from kernel_rllib.cli.training import train_experiments
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.files import read_experiments
from kernel_rllib.experiments.tuned import tuned_for


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option(
    "--run", "--algo", "-a", "algorithm", metavar="NAME", shell_complete=complete_algorithm,
    help="The algorithm; `rllib algorithms` shows all.",
)  # fmt: skip
@click.option(
    "--env", "-e", metavar="NAME", shell_complete=complete_env,
    help="The environment: a name of gymnasium, a registered name, or a dotted path.",
)  # fmt: skip
@click.option("--config", type=JsonObject(), metavar="JSON", help="Settings, in place of tuned ones.")
@click.option("--defaults", is_flag=True, help="RLlib's own default settings, in place of tuned ones.")
@click.option("-f", "--config-file", metavar="FILE", type=click.Path(), help="A YAML or Python file of experiments.")
@train_options
@click.pass_context
def train(
    context: click.Context,
    /,
    algorithm: str | None,
    env: str | None,
    config: dict[str, Any] | None,
    defaults: bool,
    config_file: str | None,
    **options: Any,
) -> None:
    """Train an algorithm in an environment, or all experiments of a file.

    Where settings that are known to learn ship for a pair, and no others are given, these are taken. Without --stop
    (or theirs) training goes on until Ctrl-C, which ends it after the iteration, with a checkpoint.

    \b
    Examples:
      rllib train --run PPO --env CartPole-v1
      rllib train --run DQN --env CartPole-v1 --config '{"lr": 0.001}' --stop '{"timesteps_total": 20000}'
      rllib train file experiments.yaml
    """
    if context.invoked_subcommand is not None:
        context.obj = options
        return
    if config_file is not None:
        if algorithm or env or config or defaults:
            raise Refusal("-f has algorithm, environment and settings in its file: leave --run, --env, --config out")
        train_experiments(read_experiments(config_file), options)
        return
    if algorithm is None:
        raise Refusal("say which algorithm: --run PPO; `rllib algorithms` shows all. Or give a file: -f FILE")
    if env is None and not (config or {}).get("env"):
        raise Refusal("say which environment: --env CartPole-v1; `rllib envs` shows names")
    experiment, note = experiment_for(algorithm, env, config, defaults=defaults)
    train_experiments([experiment], options, note)


@train.command("file")
@click.argument("file", type=click.Path())
@click.option("--filetype", type=click.Choice(["yaml", "python"]), help="What the file is; its ending says otherwise.")
@train_options
@click.pass_context
def train_file(context: click.Context, /, file: str, filetype: str | None, **options: Any) -> None:
    """Train all experiments of FILE, one after another.

    It is YAML, with the name of each experiment, and below it run, env, stop and config; or Python, with a `config`.
    """
    before: dict[str, Any] = context.obj
    given = {**before, **{name: value for name, value in options.items() if value not in (None, False, 0)}}
    train_experiments(read_experiments(file, filetype or ""), given)


def experiment_for(
    algorithm: str, env: str | None, config: dict[str, Any] | None, *, defaults: bool = False
) -> tuple[Experiment, str]:
    """Return the experiment of an algorithm in an environment, and what is to be said of its settings.

    Args:
        algorithm: Its name.
        env: The environment's name; None where `config` has it.
        config: Settings; None for tuned ones, if there are any for this pair.
        defaults: Whether RLlib's own defaults are wanted in any case.
    """
    tuned = None if config is not None or defaults else tuned_for(algorithm, env)
    if tuned is None:
        return Experiment("default", algorithm, env, config or {}), ""
    note = (
        f"settings: those of the tuned example {tuned.name} (`rllib example get {tuned.name}` shows them; --defaults "
        "takes RLlib's own)"
    )
    return tuned.with_(name="default", env=env), note
