"""Check the arguments of `init`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel.api.init_types import argument_of, check_types
from kernel_spec.engines import REMOTE, SessionOptions
from kernel_spec.errors import OptionError
from kernel_spec.labels import check_labels
from kernel_spec.resources import to_units

_ONLY_AT_START = (
    "num_cpus", "num_gpus", "resources", "memory", "memory_limit", "memory_threshold", "memory_quotas",
    "object_store_memory", "object_store_directory", "spill_directory", "labels", "temp_dir", "object_id_seed",
    "plugin_options", "preload",
)  # fmt: skip

_OF_REMOTE_DRIVERS = ("object_store_memory", "object_store_directory", "spill_directory", "temp_dir")
"""Those of them that a remote driver may set, because it has an object store of its own."""


def environment_of_program(text: str) -> Mapping[str, Any] | None:
    """Return the runtime_env that KERNEL_RUNTIME_ENV says, as JSON. Raises OptionError for anything else."""
    if not text:
        return None
    import json  # most programs need none

    try:
        environment = json.loads(text)
    except ValueError:
        environment = None
    if not isinstance(environment, dict):
        raise OptionError(
            f'KERNEL_RUNTIME_ENV must be a runtime_env as JSON, such as {{"pip": ["requests"]}}, not {text!r}'
        )
    return environment


def check_init(given: SessionOptions) -> None:
    """Raise OptionError for invalid values, and for arguments that contradict each other."""
    check_types(given)
    for name, quantity in given.node_resources().items():
        try:
            to_units(quantity)
        except ValueError as error:
            raise OptionError(f"{argument_of(name)}: {error}") from error
        except TypeError as error:
            kind = type(quantity).__name__
            raise OptionError(f"{argument_of(name)} must be a number, not the {kind} {quantity!r}") from error
    for name in given.resources or {}:
        if name in ("CPU", "GPU", "memory", "object_store_memory"):
            raise OptionError(f"resources={{{name!r}: ...}} must be given by init's own argument for it")
    try:
        check_labels(given.labels or {})
    except ValueError as error:
        raise OptionError(f"labels: {error}") from None
    _check_bytes("object_store_memory", given.object_store_memory, 1 << 20)
    _check_bytes("driver_object_store_memory", given.driver_object_store_memory, 1)
    given.memory_settings()
    _check_preload(given.preload or ())
    if given.namespace is not None and not given.namespace:
        raise OptionError("namespace must be a non-empty string or None")
    remote = given.address is not None and given.address.startswith(REMOTE)
    if not remote and (given.token_file is not None or given.tls is not None):
        raise OptionError(
            f'token_file and tls are for a cluster that is joined from outside: address="{REMOTE}HOST:PORT"'
        )
    if given.address is not None:
        allowed = _OF_REMOTE_DRIVERS if remote else ()
        wrong = [name for name in _ONLY_AT_START if getattr(given, name) is not None and name not in allowed]
        wrong += [kind for kind in given.chosen_plugins()]
        if wrong:
            raise OptionError(
                f"{', '.join(wrong)} can be chosen only where the session is started, "
                f"not with address={given.address!r}"
            )
        if given.local_mode:
            raise OptionError("local_mode=True and an address contradict each other")


def _check_preload(modules: Sequence[str]) -> None:
    import importlib.util

    if isinstance(modules, str):
        raise OptionError(f"preload is a list of names of modules, such as [{modules!r}], not {modules!r}")
    for name in modules:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            found = None
        if found is None:
            raise OptionError(f"preload names the module {name!r}, which can't be found")


def _check_bytes(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        at_least = "1 MB" if least == 1 << 20 else least
        raise OptionError(f"{name} must be at least {at_least}, in bytes, not {value}")
