"""Prepare runtime environments on a node: everything that a worker needs to run in one, before it starts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kernel.plugin_faults import told
from kernel.plugins import PluginManager
from kernel_engine.messages.named_messages import Message
from kernel_processes.node.package_fetcher import PackageFetcher
from kernel_processes.node.packages import Packages
from kernel_processes.transport.reactor import Reactor
from kernel_spec.dataclass import dataclass
from kernel_spec.environments import PACKAGE, BuildPlace, EnvironmentBuilder, WorkerStart
from kernel_spec.errors import RuntimeEnvError

if TYPE_CHECKING:
    from kernel.environments.builders import EnvironmentBuilders
    from kernel_processes.node.build_cache import EnvironmentPart
    from kernel_processes.node.environment_builds import EnvironmentBuilds

PLAIN = WorkerStart()
"""The start of a worker without an environment of its own."""

Then = Callable[[WorkerStart | RuntimeEnvError], None]


@dataclass(slots=True)
class _Field:
    """Holds one field of an environment: its value, its builder, and the packages for it."""

    name: str
    prepared: Any
    builder: EnvironmentBuilder
    packages: list[str]


class WorkerEnvironments:
    """Prepares the environments that workers of this node run in. Its methods are called from the loop.

    `directory` is the session's; `send` reaches the head; `keys_in_use` returns the keys of the environments in which
    workers run or start. `spill_directory` is where objects lie that have no room in memory, if not in the session's.
    """

    def __init__(
        self,
        directory: str,
        reactor: Reactor,
        send: Callable[[Message], None],
        manager: PluginManager,
        keys_in_use: Callable[[], Iterable[str]],
        spill_directory: str | None = None,
    ) -> None:
        self._session = directory
        spilled = filter(os.path.isdir, [os.path.abspath(spill_directory)] if spill_directory else [])  # or it is a URL
        self._shared = (directory, *spilled)
        self._reactor = reactor
        self._manager = manager
        self._keys_in_use = keys_in_use
        self._known: dict[str, Mapping[str, Any]] = {"": {}}
        self._packages = Packages(directory)
        self._fetcher = PackageFetcher(self._packages, reactor, send)
        self.on_piece = self._fetcher.on_piece
        self._builders: EnvironmentBuilders | None = None
        self._builds: EnvironmentBuilds | None = None

    def learn(self, key: str, description: Mapping[str, Any]) -> None:
        """Remember what an environment is (see `kernel_processes.head.environments`)."""
        self._known[key] = description

    def make_ready(self, key: str, then: Then) -> None:
        """Call `then` with what a worker in this environment is given once all of it is here, or with why it can't be.

        It is called at once where nothing is to be fetched or built.
        """
        description = self._known[key]
        if not description:
            then(PLAIN)
            return
        try:
            fields = self._fields(description)
        except RuntimeEnvError as error:
            then(error)
            return
        names = list(dict.fromkeys(name for field in fields for name in field.packages))

        def fetched(error: RuntimeEnvError | None) -> None:
            if error is not None:
                then(error)
            else:
                self._build(fields, [], then)

        self._fetcher.fetch([name.removeprefix(PACKAGE) for name in names], fetched)

    def close(self) -> None:
        """Fetch, build and remove nothing more."""
        self._fetcher.close()
        if self._builds is not None:
            self._builds.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _fields(self, description: Mapping[str, Any]) -> list[_Field]:
        """Return the fields, those of the kernel first. Raises RuntimeEnvError where one can't be built here."""
        from kernel.environments.builders import BUILT_IN, EnvironmentBuilders  # few sessions have environments

        if self._builders is None:
            self._builders = EnvironmentBuilders(lambda: self._manager, "on this node")
        names = [name for name in BUILT_IN if name in description]
        names += sorted(description.keys() - names)
        fields = []
        for name in names:
            builder, prepared = self._builders.of(name), description[name]
            packages = list(self._asked(name, "packages()", builder.packages, prepared))
            fields.append(_Field(name, prepared, builder, packages))
        return fields

    def _build(self, fields: list[_Field], starts: list[tuple[str, WorkerStart]], then: Then) -> None:
        """Build the fields one after another, and combine what each of them gives a worker."""

        def built(outcome: WorkerStart | RuntimeEnvError) -> None:
            if isinstance(outcome, RuntimeEnvError):
                then(outcome)
            else:
                self._build(fields, [*starts, (field.name, outcome)], then)

        if len(starts) == len(fields):
            try:
                combined = combine(starts)
            except RuntimeEnvError as error:
                then(error)
                return
            then(combined)
            return
        field = fields[len(starts)]
        if field.builder.build_seconds:
            label = self._label(field.name)
            where = {name: self._path_of(name) for name in field.packages}
            self._building().build(
                part_of(field.name, field.prepared), field.builder, label, field.prepared, where, built
            )
            return
        place = BuildPlace("", self._path_of)
        try:
            start = self._asked(field.name, "build()", field.builder.build, field.prepared, place)
        except RuntimeEnvError as error:
            built(error)
            return
        built(start)

    def _building(self) -> EnvironmentBuilds:
        if self._builds is None:
            from kernel_processes.node.environment_builds import EnvironmentBuilds  # few sessions build

            self._builds = EnvironmentBuilds(self._session, self._reactor, self._parts_in_use, self._shared)
        return self._builds

    def _parts_in_use(self) -> set[EnvironmentPart]:
        keys = set(self._keys_in_use())
        return {part_of(name, value) for key in keys for name, value in self._known.get(key, {}).items()}

    def _path_of(self, package: str) -> str:
        return self._packages.path(package.removeprefix(PACKAGE))

    def _label(self, field: str) -> str:
        assert self._builders is not None
        return self._builders.label(field)

    def _asked(self, field: str, method: str, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a builder answers. Raises RuntimeEnvError, also for what else a plugin raises."""
        try:
            return call(*arguments)
        except RuntimeEnvError:
            raise
        except Exception as error:
            raise RuntimeEnvError(told(f"{self._label(field)}: its {method}", error)) from error


def part_of(field: str, prepared: Any) -> EnvironmentPart:
    """Return the part that a field of an environment is."""
    from kernel_processes.node.build_cache import EnvironmentPart

    text = json.dumps(prepared, sort_keys=True)
    return EnvironmentPart(field, hashlib.blake2b(text.encode(), digest_size=16).hexdigest())


def combine(starts: Iterable[tuple[str, WorkerStart]]) -> WorkerStart:
    """Return what a worker is given in an environment of several fields, each with what it gives, the kernel's first.

    Variables of `env_vars` come before those of others, and `${NAME}` in one stands there for what another has given
    `NAME`. Of working directories the first is taken. Raises RuntimeEnvError where two choose the interpreter.
    """
    variables: dict[str, str] = {}
    own: Mapping[str, str] = {}
    paths: list[str] = []
    directory, python, chosen_by, modules = "", "", "", tuple[str, ...]()
    for field, start in starts:
        if field == "env_vars":
            own = start.variables
        else:
            variables.update(start.variables)
        paths += [path for path in start.paths if path not in paths]
        directory = directory or start.directory
        if start.python:
            if python:
                raise RuntimeEnvError(
                    f"runtime_env[{chosen_by!r}] and runtime_env[{field!r}] both choose the interpreter; give one of "
                    "them"
                )
            python, chosen_by, modules = start.python, field, start.modules
    for name, text in own.items():
        variables[name] = text.replace(f"${{{name}}}", variables[name]) if name in variables else text
    return WorkerStart(variables, tuple(paths), directory, python, modules)
