"""Names that users give to classes of their own, so that settings can name them."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_runs.errors import RunError
from kernel_runs.shared_names import SharedNames


class GivenNames:
    """The names of classes of one kind: models, preprocessors, or distributions of actions."""

    def __init__(self, kind: str, setting: str, register: str) -> None:
        """Begin without names.

        Args:
            kind: The name of the kind of classes, for messages.
            setting: The option of the model that takes a name.
            register: The function that gives one.
        """
        self._kind, self._setting, self._register = kind, setting, register
        self._names = SharedNames(kind)

    def register(self, name: str, given: Any) -> None:
        """Give a class, or a function that makes what it would, a name. A name that is given again means the new one.

        Raises:
            ConfigError: If the name is no text, or what is given can't be called.
        """
        if not isinstance(name, str) or not callable(given):
            raise ConfigError(
                f"a {self._kind} was registered as {name!r}: {given!r}; give a name, and a class or a function that "
                f"makes a {self._kind}"
            )
        self._names.register(name, given)

    def named(self, given: Any) -> Any:
        """Return what a user names: by a registered name, by a dotted path, or as it is.

        Raises:
            ConfigError: If there is none of that name (the message has the nearest one), or it can't be sent here.
        """
        if not isinstance(given, str):
            return given
        try:
            found = self._names.find(given)
        except RunError as error:
            raise ConfigError(f"{self._setting} is {given!r}, but {error}") from error
        if found is not None:
            return found
        module, _, attribute = given.rpartition(".")
        try:
            if module:
                return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError):
            pass
        names = self._names.names()
        known = f"there are {', '.join(map(repr, names))}" if names else "there are none"
        raise ConfigError(
            f"{self._setting} is {given!r}, and no {self._kind} was registered by that name"
            f"{did_you_mean(given, names)} ({known}); register it by ModelCatalog.{self._register}(name, "
            "class), or give the class or its dotted path"
        )
