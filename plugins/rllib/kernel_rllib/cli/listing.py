"""`rllib algorithms`, `rllib envs`, `rllib explain`: what there is, and what settings amount to."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import click
import gymnasium

from kernel_rllib.cli.parameters import JsonObject, complete_algorithm, complete_env
from kernel_rllib.cli.train import experiment_for
from kernel_rllib.envs import games
from kernel_rllib.envs.making import TWINS
from kernel_rllib.envs.multi_agent import MultiAgentEnv
from kernel_rllib.envs.registry import registered_names
from kernel_rllib.experiments.training import settings_of
from kernel_rllib.experiments.tuned import tuned_experiment, tuned_names
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class
from kernel_runs.progress.text import text_table

_PAPER = re.compile(r"(?:arXiv[: ]+)(\d{4}\.\d{4,5})|(nature\d+)")


@click.command()
@click.option("--paths", is_flag=True, help="Show where the file of each algorithm is.")
def algorithms(paths: bool) -> None:
    """List the algorithms: their papers, the actions that they take, their tuned examples."""
    tuned: dict[str, int] = {}
    for name in tuned_names():
        run = tuned_experiment(name).run
        tuned[run] = tuned.get(run, 0) + 1
    rows = [
        (name, ", ".join(_papers(cls)), ", ".join(cls.action_kinds), tuned.get(name, 0), _file(cls, paths))
        for name, cls in ((name, algorithm_class(name)) for name in sorted(ALGORITHMS))
    ]
    click.echo(text_table(("name", "papers", "actions", "examples", "file"), rows))


def _papers(cls: type) -> list[str]:
    module = inspect.getmodule(cls)
    return [a or b for a, b in _PAPER.findall((module.__doc__ if module else "") or "")]


def _file(cls: type, whole: bool) -> str:
    path = inspect.getfile(cls)
    return path if whole else os.path.basename(path)


@click.command()
@click.option("--all", "everything", is_flag=True, help="List the names of gymnasium too.")
def envs(everything: bool) -> None:
    """List the names of environments: registered ones, those that ship, and how many gymnasium has."""
    for name in registered_names():
        click.echo(f"{name}  (registered)")
    for name in sorted(TWINS):
        click.echo(f"{name}  (steps many lanes at once with gym_env_vectorize_mode='native')")
    for path, about in sorted(_games()):
        click.echo(f"{path}  {about}")
    names = sorted(gymnasium.registry)
    if everything:
        click.echo("\n".join(names))
    else:
        click.echo(f"and {len(names)} names of gymnasium {gymnasium.__version__} (--all lists them)")


def _games() -> Iterator[tuple[str, str]]:
    """Yield the path of each environment that ships, and what it is."""
    for module_info in pkgutil.iter_modules(games.__path__):
        module = importlib.import_module(f"{games.__name__}.{module_info.name}")
        for name, value in vars(module).items():
            is_env = inspect.isclass(value) and issubclass(value, (gymnasium.Env, MultiAgentEnv))
            if is_env and value.__module__ == module.__name__ and not name.startswith("_"):
                about = (inspect.getdoc(value) or "").partition("\n")[0]
                yield f"{module.__name__}.{name}", about


@click.command()
@click.option(
    "--run", "--algo", "-a", "algorithm", metavar="NAME", required=True, shell_complete=complete_algorithm,
    help="The algorithm.",
)  # fmt: skip
@click.option("--env", "-e", metavar="NAME", shell_complete=complete_env, help="The environment.")
@click.option("--config", type=JsonObject(), metavar="JSON", help="Settings, in place of tuned ones.")
@click.option("--defaults", is_flag=True, help="RLlib's own default settings, in place of tuned ones.")
@click.option("--all", "everything", is_flag=True, help="Settings that are as by default too, with what they mean.")
def explain(algorithm: str, env: str | None, config: dict[str, Any] | None, defaults: bool, everything: bool) -> None:
    """Say what `rllib train` with the same options would do: each setting, who has set it, and what it costs."""
    experiment, note = experiment_for(algorithm, env, config, defaults=defaults)
    made = settings_of(algorithm, experiment.config, env)
    if note:
        click.echo(f"{note}\n")
    click.echo(made.explain().text(everything=everything))
