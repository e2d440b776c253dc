"""Descriptions of runtime environments; their files are on the nodes.

An environment is described by plain values, field by field, as the builder of each field prepared them:
`{"env_vars": {...}, "working_dir": "package:...", "py_modules": ["package:...", ...], "pip": {...}}`. Its key is the
digest of that description, so equal environments share workers and files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any


class Environments:
    """Holds every environment that the session asked for. Each new one is passed to `on_new(key, description)`."""

    def __init__(self, on_new: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._known: dict[str, Mapping[str, Any]] = {"": {}}
        self._on_new = on_new

    def description(self, key: str) -> Mapping[str, Any]:
        """Return the description of an environment."""
        return self._known[key]

    def key_of(self, description: Mapping[str, Any] | None) -> str:
        """Return the key of an environment, remembering it."""
        description = {name: value for name, value in (description or {}).items() if name != "inherit"}
        if not description:
            return ""
        text = json.dumps(description, sort_keys=True)
        key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        if key not in self._known:
            self._known[key] = description
            self._on_new(key, description)
        return key

    def key_within(self, outer: str, description: Mapping[str, Any] | None) -> str:
        """Return the key of an environment that is asked for inside another: it adds to that one's.

        Variables of the same name and the working directory are the inner one's, its modules are found first. One
        with `"inherit": False` has nothing of the other.
        """
        if not description:
            return outer
        if not description.get("inherit", True):
            return self.key_of(description)
        around = self._known[outer]
        merged = {**around, **description}
        for name, both in (
            ("env_vars", {**around.get("env_vars", {}), **description.get("env_vars", {})}),
            ("py_modules", list(dict.fromkeys([*description.get("py_modules", ()), *around.get("py_modules", ())]))),
        ):
            if both:
                merged[name] = both
        return self.key_of(merged)
