"""Checks of arguments that several places make."""

from __future__ import annotations

from kernel.exceptions import OptionError


def check_count(name: str, value: object, least: int) -> None:
    """Raise OptionError unless a value is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"{name} must be an integer of at least {least}, not {value!r}")
