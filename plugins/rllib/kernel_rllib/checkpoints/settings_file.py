"""The settings of an algorithm in its checkpoint: what it is built of again, without knowing its class or settings.

settings.json     the class of the algorithm, that of its config, and each setting that was set
settings.pickles  what of these has no form in JSON, each a pickle; only there where there is such
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_rllib.checkpoints.files import write_file
from kernel_rllib.checkpoints.values import Reader, Writer
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import CheckpointError

SETTINGS = "settings.json"
PICKLES = "settings.pickles"


@dataclass(frozen=True)
class SavedSettings:
    """Holds the settings that an algorithm is built from.

    Attributes:
        algorithm: Its class.
        config: Its settings; they can be changed.
    """

    algorithm: Any
    config: AlgorithmConfig


def write_settings(directory: str | Path, algorithm: type, config: AlgorithmConfig) -> None:
    """Write the class of an algorithm and its settings."""
    write = Writer()
    written = {
        "algorithm": write(algorithm),
        "config": write(type(config)),
        "generation": config.generation,
        "settings": {name: write(value) for name, value in config.set_values().items()},
    }
    write_file(Path(directory) / SETTINGS, json.dumps(written, indent=1))
    if write.pickles:
        write_file(Path(directory) / PICKLES, pickle.dumps(write.pickles))


def read_settings(
    directory: str | Path, *, trust: bool = False, instead: Mapping[str, Any] | None = None
) -> SavedSettings:
    """Return what an algorithm is built of.

    Args:
        directory: That of the checkpoint.
        trust: Whether pickles may be read.
        instead: Settings, under any of their names, that take the places of the saved ones. These are not read then.

    Raises:
        CheckpointError: If there are no settings, they are damaged, name what is not there, or need trust.
    """
    file = Path(directory) / SETTINGS
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        algorithm, config_class, settings = written["algorithm"], written["config"], dict(written["settings"])
        generation = written["generation"]
    except FileNotFoundError:
        raise CheckpointError(
            f"{directory} has no {SETTINGS}, so what it is a checkpoint of is not known: build the algorithm with the "
            "settings it had, and call its restore()."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file} is damaged: {error!r}. Take an older checkpoint.") from error
    read = Reader(lambda number: _unpickled(Path(directory) / PICKLES, number, trust))
    config = _named(file, "the class of its config", read, config_class)
    for name in instead or {}:
        row = config.names.find(name)
        settings.pop(row.path[0] if row is not None and hasattr(row, "path") and len(row.path) == 1 else name, None)
    values = {name: _named(file, f"setting {name!r}", read, value) for name, value in settings.items()}
    made: AlgorithmConfig = AlgorithmConfig.from_state({"class": config, "generation": generation, "settings": values})
    if instead:
        made.update_from_dict(instead, source="from_checkpoint")
    return SavedSettings(_named(file, "the class of the algorithm", read, algorithm), made)


def _named(file: Path, what: str, read: Reader, written: Any) -> Any:
    try:
        return read(written)
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {what} can't be read: {error}") from error
    except Exception as error:  # A user's class may raise anything.
        raise CheckpointError(f"{file}: {what} can't be read: {type(error).__name__}: {error}") from error


def _unpickled(file: Path, number: int, trust: bool) -> Any:
    if not trust:
        raise CheckpointError(
            "it has no name to be imported by, so it is there as a pickle, which can run any program when it is read. "
            "Say from_checkpoint(path, trust=True) if you trust who wrote the checkpoint, or give the setting anew by "
            "from_checkpoint(path, config={...})."
        )
    try:
        return pickle.loads(pickle.loads(file.read_bytes())[number])
    except FileNotFoundError:
        raise CheckpointError(f"the file {file} is missing. Take an older checkpoint.") from None
    except (pickle.UnpicklingError, EOFError, IndexError) as error:
        raise CheckpointError(f"the file {file} is damaged: {error}. Take an older checkpoint.") from error
