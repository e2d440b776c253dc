"""Files of experiments: YAML as RLlib's tuned examples are, and Python files with a config."""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.experiment import Experiment, experiment_of


def read_experiments(path: str | os.PathLike[str], kind: str = "") -> list[Experiment]:
    """Return the experiments of a file.

    Args:
        path: A YAML file, whose keys are names of experiments; or a Python file that has a `config` (an AlgorithmConfig
            that names an algorithm), and perhaps `stop`, or that has `experiments`, a mapping as YAML has it.
        kind: "yaml" or "python"; "" for what the file's ending says.

    Raises:
        ConfigError: If there is no such file, or there are no experiments in it.
    """
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"there is no file {file}: give a YAML or Python file of experiments")
    is_python = kind == "python" or (not kind and file.suffix == ".py")
    described = _of_python(file) if is_python else read_yaml(file)
    if not isinstance(described, Mapping) or not described:
        raise ConfigError(
            f"{file} has no experiments: it needs a name for each, and below it the keys run, env, config and stop"
        )
    return [experiment_of(str(name), each, str(file)) for name, each in described.items()]


def read_yaml(file: Path) -> Any:
    """Return what a YAML file has in it. Raises ConfigError, with the line, where it is none."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        raise ConfigError(f"{where}: this is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{file}: this is not YAML: {' '.join(str(error).split())}") from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Reads plain values. `1e-3` is a number, as people mean it: YAML 1.1 wants a dot and a sign in it."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d[\d_]*(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def _of_python(file: Path) -> Any:
    try:
        names = runpy.run_path(str(file), run_name="experiment")
    except Exception as error:
        raise ConfigError(f"{file} fails: {type(error).__name__}: {error}") from error
    if "experiments" in names:
        return names["experiments"]
    config = names.get("config")
    if not isinstance(config, AlgorithmConfig) or not config.algorithm:
        raise ConfigError(
            f"{file} has no `config` that is one of an algorithm, such as PPOConfig(), nor `experiments`, a mapping of "
            "names to experiments"
        )
    return {file.stem: {"run": config.algorithm, "config": config.to_dict(), "stop": names.get("stop")}}
