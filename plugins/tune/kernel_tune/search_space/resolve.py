"""Drawing one configuration from a space. Functions may ask for other values in any order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Domain, Function
from kernel_tune.search_space.paths import Path, has_choices, is_container, is_grid, path_name, rebuilt
from kernel_tune.search_space.randomness import global_randomness_from


class GridUndecidedError(Exception):
    """A function asks for the value of a grid that is not decided yet."""


class Resolver:
    """Builds one configuration in progress.

    `decided` has values that are decided already, by path (those of grids). Grids without a value stay as they are.
    Functions draw from generators that are seeded by `generator`, and for the module `random` by `standard`.
    """

    def __init__(
        self, space: Any, generator: np.random.Generator, decided: Mapping[Path, Any] | None = None,
        standard: random.Random | None = None,
    ) -> None:  # fmt: skip
        self._space = space
        self._generator = generator
        self._standard = standard
        self._raw = dict(decided or {})
        self.values: dict[Path, Any] = {}
        """The values that were chosen, by path."""
        self._asking: list[Path] = []

    def config(self) -> Any:
        """Return the configuration. Containers are new, other values are those of the space."""
        return self.build(self._space, ())

    def try_value(self, path: Path, domain: Domain) -> None:
        """Decide the value at a path, unless it depends on a grid that is undecided."""
        try:
            self.build(domain, path)
        except GridUndecidedError:
            self._asking.clear()

    def build(self, node: Any, path: Path) -> Any:
        """Return the value of a part of the space."""
        if isinstance(node, Domain) or (is_grid(node) and path in self._raw):
            return self._value(path, node)
        if isinstance(node, SpecView):
            return node._plain()
        if is_container(node):
            return rebuilt(node, lambda key, value: self.build(value, (*path, key)))
        return node

    def view(self, node: Any, path: Path) -> Any:
        """Return a part of the space as a function sees it."""
        if isinstance(node, Domain) or is_grid(node):
            if is_grid(node) and path not in self._raw:
                raise GridUndecidedError
            node = self._value(path, node)
        if isinstance(node, dict):
            return SpecView(self, node, path)
        return self.build(node, path)

    def _value(self, path: Path, domain: Any) -> Any:
        if path not in self.values:
            drawn = self._raw[path] if path in self._raw else self._draw(path, domain)
            while isinstance(drawn, Domain):  # a value of a grid, or an option
                drawn = self._draw(path, drawn)
            # An option that was chosen may have domains of its own.
            self.values[path] = self.build(drawn, path) if _is_nested(drawn) else drawn
        return self.values[path]

    def _draw(self, path: Path, domain: Domain) -> Any:
        if not isinstance(domain, Function):
            return domain.draw(self._generator)
        if path in self._asking:
            circle = [*self._asking[self._asking.index(path) :], path]
            raise SearchSpaceError(
                f"functions given to sample_from wait for each other: {' -> '.join(map(path_name, circle))}."
                " One of them must do without the other"
            )
        self._asking.append(path)
        try:
            with global_randomness_from(self._generator, self._standard):
                drawn = domain.call(SpecView(self, self._space, ()))
        except (SearchSpaceError, GridUndecidedError):
            raise
        except Exception as error:
            raise SearchSpaceError(
                f"the function given to sample_from for '{path_name(path)}' failed: {type(error).__name__}: {error}"
            ) from error
        self._asking.pop()
        return drawn._plain() if isinstance(drawn, SpecView) else drawn


class SpecView(Mapping[Any, Any]):
    """Shows the configuration as a function sees it: by key or attribute; `config` is the whole.

    A value that was not decided yet is decided when it is asked for.
    """

    def __init__(self, resolver: Resolver, node: dict[Any, Any], path: Path) -> None:
        self.__dict__.update(_resolver=resolver, _node=node, _path=path)

    def __getitem__(self, key: Any) -> Any:
        if key in self._node:
            return self._resolver.view(self._node[key], (*self._path, key))
        if key == "config" and not self._path:
            return self
        where = f" under '{path_name(self._path)}'" if self._path else ""
        raise KeyError(f"the configuration has no {key!r}{where}: it has {', '.join(map(str, self._node))}")

    def __getattribute__(self, key: str) -> Any:
        # Keys of the configuration take precedence: it may have `values` or `items`.
        if not key.startswith("_") and key in self._node:
            return self[key]
        return super().__getattribute__(key)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._node)

    def __len__(self) -> int:
        return len(self._node)

    def __repr__(self) -> str:
        return f"SpecView({', '.join(map(str, self._node))})"

    def _plain(self) -> Any:
        """Return it as an ordinary dict."""
        return self._resolver.build(self._node, self._path)


def _is_nested(drawn: Any) -> bool:
    return is_container(drawn) and (has_choices(drawn) or _has_views(drawn))


def _has_views(node: Any) -> bool:
    if isinstance(node, SpecView):
        return True
    return is_container(node) and any(_has_views(v) for v in (node.values() if isinstance(node, dict) else node))
