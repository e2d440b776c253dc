"""Checks of single settings. Each raises DeploymentError, which names the setting and says what it can be."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from kernel_serve.errors import DeploymentError


def port_number(value: Any) -> None:
    """Raise DeploymentError unless a value is the number of a port."""
    if not is_whole(value) or not 0 <= value <= 65535:
        raise DeploymentError(f"port is a number from 0 (any free one) to 65535, not {value!r}")


def tls_options(settings: Any) -> None:
    """Raise DeploymentError for options of TLS without a certificate: what should be encrypted would not be."""
    each_is(
        settings,
        ("ssl_keyfile", "ssl_certfile", "ssl_ca_certs"),
        lambda value: isinstance(value, (str, os.PathLike)),
        "the path of a file",
    )
    for name in ("ssl_keyfile", "ssl_keyfile_password", "ssl_ca_certs"):
        if getattr(settings, name) is not None and settings.ssl_certfile is None:
            raise DeploymentError(f"{name} is given, but no ssl_certfile: there would be no TLS at all")


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_amount(value: Any) -> bool:
    """Return whether a value is a finite number from 0 on."""
    return is_number(value) and value >= 0


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Return whether a value is text."""
    return isinstance(value, str)


def is_texts(value: Any) -> bool:
    """Return whether a value is a list of texts."""
    return isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(each, str) for each in value)


def whole(settings: Any, least: int, *names: str) -> None:
    """Raise DeploymentError unless these settings are whole numbers from `least` on."""
    each_is(settings, names, lambda value: is_whole(value) and value >= least, f"a whole number from {least} on")


def positive(settings: Any, *names: str) -> None:
    """Raise DeploymentError unless these settings are finite numbers above 0."""
    each_is(settings, names, lambda value: is_number(value) and value > 0, "a finite number above 0")


def not_negative(settings: Any, *names: str) -> None:
    """Raise DeploymentError unless these settings are finite numbers from 0 on."""
    each_is(settings, names, is_amount, "a finite number from 0 on")


def truths(settings: Any, *names: str) -> None:
    """Raise DeploymentError unless these settings are True or False."""
    each_is(settings, names, lambda value: isinstance(value, bool), "True or False")


def each_is(settings: Any, names: tuple[str, ...], holds: Callable[[Any], Any], expected: str) -> None:
    """Raise DeploymentError for a setting for which `holds` is false. None is allowed where it is the default."""
    for name in names:
        value = getattr(settings, name)
        is_left_out = value is None and settings.__dataclass_fields__[name].default is None
        if not is_left_out and not holds(value):
            raise DeploymentError(f"{name} is {expected}, not {value!r}")


def seconds(name: str, value: Any) -> float | None:
    """Return a time in seconds, None for no limit.

    Raises DeploymentError for another value, NaN and infinity included.
    """
    if value is not None and not is_number(value):
        raise DeploymentError(f"{name} is a number of seconds, or None for any time, not {value!r}")
    return value  # type: ignore[no-any-return]
