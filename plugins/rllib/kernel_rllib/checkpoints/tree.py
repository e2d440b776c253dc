"""Trees of arrays and plain values as directories: arrays as `.npy`, bytes as `.bin`, all else in one `tree.json`.

Reading one unpickles nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.checkpoints.files import write_array, write_file
from kernel_rllib.errors import CheckpointError

INDEX = "tree.json"
_NOT_IN_NAMES = set('<>:"/\\|?*')


def write_tree(directory: str | Path, tree: Mapping[str, Any]) -> None:
    """Write a tree into a directory, which is made if it is not there.

    Args:
        directory: The directory. A branch of the tree is a directory in it, an array or bytes is a file.
        tree: Mappings of names to mappings, arrays, bytes, numbers, texts, None, and lists of these without arrays.

    Raises:
        CheckpointError: If there is something else in it, or a name that can't be one of a file.
    """
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    index: dict[str, Any] = {}
    for path, value in _leaves(tree, ()):
        name = "/".join(path)
        file = root.joinpath(*path)
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_array(f"{file}.npy", value)
            index[name] = {"file": f"{name}.npy"}
        elif isinstance(value, bytes):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(f"{file}.bin", value)
            index[name] = {"file": f"{name}.bin"}
        else:
            index[name] = {"value": _plain(value, name)}
    write_file(root / INDEX, json.dumps(index, indent=1))


def read_tree(directory: str | Path) -> dict[str, Any]:
    """Return the tree in a directory.

    Raises:
        CheckpointError: If there is none, or a file of it is missing or damaged.
    """
    root = Path(directory)
    try:
        index = json.loads((root / INDEX).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{root} is no checkpoint: there is no {INDEX} in it. Give the directory that `save` returned."
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{root / INDEX} is damaged: {error}. Restore an older checkpoint.") from error
    tree: dict[str, Any] = {}
    for name, entry in index.items():
        branch = tree
        *above, leaf = name.split("/")
        for part in above:
            branch = branch.setdefault(part, {})
        branch[leaf] = entry["value"] if "value" in entry else _file(root, entry["file"])
    return tree


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in tree.items():
        if not isinstance(name, str) or not name or _NOT_IN_NAMES & set(name) or name[-1] in ". ":
            raise CheckpointError(
                f"{name!r} can't be a name in a checkpoint: names are files there, so they need a character, must not "
                f"have any of {''.join(sorted(_NOT_IN_NAMES))} and must not end with a dot or a space."
            )
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _plain(value: Any, name: str) -> Any:
    """Return what JSON can keep of a value, so that it comes back as it was."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)) or value == {}:
        return value
    if isinstance(value, float):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item, name) for item in value]
    raise CheckpointError(
        f"{name} is {type(value).__name__}, which a checkpoint can't keep: it takes arrays, bytes, numbers, texts, "
        "None and lists of these."
    )


def _file(root: Path, name: str) -> Any:
    path = root / name
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise CheckpointError(f"{root / INDEX} names the file {name!r}, which is not in the checkpoint: it is damaged.")
    try:
        return path.read_bytes() if path.suffix == ".bin" else np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CheckpointError(f"the checkpoint's file {path} can't be read: {error}. Restore an older one.") from error
