"""Read `runtime_env["container"]` or `["image_uri"]` into plain values."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import RuntimeEnvError
from kernel_spec.nearest import nearest

KEYS = ("image", "run_options", "python", "worker_path")
"""The keys of `container`. `worker_path` is where Ray has its own worker in the image, which has no meaning here."""

DEFAULT_PYTHON = "python3"


@dataclass(frozen=True, slots=True)
class Image:
    """Describes what a worker's container is made of.

    `name` is that of an image, or the absolute path of a directory with a root file system. `options` are more options
    of the program that runs the container. `python` is the interpreter in the image.
    """

    name: str
    options: tuple[str, ...] = ()
    python: str = DEFAULT_PYTHON

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory of the node."""
        return os.path.isabs(self.name)


def check(field: str, value: Any) -> None:
    """Raise RuntimeEnvError unless `value` is what the field, `container` or `image_uri`, takes."""
    title = f"runtime_env[{field!r}]"
    if field == "image_uri":
        _check_name(title, value)
        return
    if not isinstance(value, Mapping):
        raise RuntimeEnvError(
            f"{title} must be a dict such as {{'image': 'docker.io/library/python:3.12'}}, not {value!r}"
        )
    for key in value:
        if key not in KEYS:
            close = nearest(str(key), KEYS)
            hint = f"did you mean {close!r}?" if close else f"it has {', '.join(KEYS)}"
            raise RuntimeEnvError(f"{title} has no key {key!r}; {hint}")
    if "image" not in value:
        raise RuntimeEnvError(f"{title} must name the image, as in {{'image': 'docker.io/library/python:3.12'}}")
    _check_name(f"{title}['image']", value["image"])
    options = value.get("run_options") or []
    if not isinstance(options, (list, tuple)) or not all(isinstance(option, str) for option in options):
        raise RuntimeEnvError(
            f"{title}['run_options'] must be a list of options such as '--device /dev/fuse', not {options!r}"
        )
    split_options(f"{title}['run_options']", options)
    for key in ("python", "worker_path"):
        if not isinstance(value.get(key) or "", str):
            raise RuntimeEnvError(f"{title}[{key!r}] must be a path in the image, not {value[key]!r}")


def prepare(field: str, value: Any) -> str | dict[str, Any]:
    """Return `value`, which was checked, in the one form that it has on the nodes."""
    if field == "image_uri":
        return os.path.expanduser(os.fspath(value))
    options = split_options("", value.get("run_options") or [])
    return {
        "image": os.path.expanduser(os.fspath(value["image"])),
        "run_options": [shlex.quote(option) for option in options],
        "python": value.get("python") or DEFAULT_PYTHON,
    }


def image_of(prepared: str | Mapping[str, Any]) -> Image:
    """Return the image that `prepare` has described."""
    if isinstance(prepared, str):
        return Image(prepared)
    return Image(prepared["image"], tuple(split_options("", prepared["run_options"])), prepared["python"])


def split_options(title: str, options: list[str] | tuple[str, ...]) -> list[str]:
    """Return the words of options, each of which may have its value behind a space, quoted as in a shell.

    Raises RuntimeEnvError for one with a quotation mark that is never closed.
    """
    words = []
    for option in options:
        try:
            words += shlex.split(option)
        except ValueError as error:
            raise RuntimeEnvError(f"{title} has {option!r}, which can't be split into words: {error}") from error
    return words


def _check_name(title: str, value: Any) -> None:
    if not isinstance(value, (str, os.PathLike)):
        raise RuntimeEnvError(
            f"{title} must be the name of an image, or the absolute path of a root file system, not {value!r}"
        )
    name = os.fspath(value)
    if not name:
        raise RuntimeEnvError(f"{title} is empty; name an image, or leave the field out")
    if name.startswith("-") or any(letter.isspace() for letter in name):
        raise RuntimeEnvError(f"{title} is {name!r}, which can't be the name of an image")
