"""The plugin manager: discovers, checks and registers plugins, and returns the chosen implementations.

One process discovers (the node agent, or the command line); the others get its `catalog()` and import only the
plugins whose implementations they use. Not safe to call from several threads at once: all of it happens while a
process boots.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import kernel.plugins.messages as messages
from kernel.entry_points import entry_points
from kernel.plugin_faults import lines_of, missing_members, summary
from kernel.plugins.catalog import Catalog, CatalogEntry, PluginInfo
from kernel.plugins.contracts import ContractRegistry, check_offer, check_versions, register
from kernel.plugins.kinds import KIND_OF_HOOK, KINDS, PluginKind
from kernel.plugins.options import PluginOptions
from kernel.plugins.reporting import TRACE_VARIABLE, trace, warn_skipped
from kernel.plugins.selection import Config, Selection, check_kinds, find_config, select
from kernel.working_directory import working_directory
from kernel_spec.errors import ContractError, KernelError, PluginError, PluginNotFoundError
from kernel_spec.hooks import PLUGIN_GROUP

ONLY_VARIABLE = "KERNEL_PLUGINS"

BUILT_IN = (("local", "kernel.defaults.plugin"),)
"""Plugins that come with the kernel: name and target. They are registered like any other plugin."""

Factory = Callable[..., Any]

_SHARED = [kind for kind in KINDS.values() if kind.shared]


class PluginManager:
    """The plugins of a process. Make one with `discover()` or `from_catalog()`."""

    def __init__(
        self,
        selected: Mapping[str, str | Sequence[str]],
        environment: Mapping[str, str],
        config: Config | None,
    ) -> None:
        check_kinds(selected, "argument")
        self.problems: dict[str, Exception] = {}
        """Plugin name to why it was skipped."""
        self._selected = dict(selected)
        self._environment = environment
        self._config = config
        self._options = PluginOptions()
        self._inherited: Catalog | None = None
        self._entries: dict[str, CatalogEntry] = {}
        self._targets: dict[str, str] = {}
        self._answers: dict[tuple[str, str], Any] = {}
        self._labels: dict[int, str] = {}
        """Labels of all implementations that were made, by identity: they live as long as this process."""
        self._registry = ContractRegistry()
        if environment.get(TRACE_VARIABLE, "0") not in ("", "0"):
            trace(self._registry)

    # -- making one ------------------------------------------------------------------------------------------------

    @classmethod
    def discover(
        cls,
        selected: Mapping[str, str | Sequence[str]] | None = None,
        only: Sequence[str] | None = None,
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        environment: Mapping[str, str] | None = None,
        config: Config | None = None,
        installed: Iterable[tuple[str, str]] | None = None,
    ) -> PluginManager:
        """Find, import, check and register all installed plugins.

        `selected` is kind to name, from arguments. `only` (or `KERNEL_PLUGINS="a,b"`) names the plugins to load
        besides the built-in one. `options` are for implementations: name to option to value. `environment`
        defaults to the process's, `config` to the file that `find_config` finds, `installed` (name and target pairs)
        to the entry points. Broken plugins land in `problems`. Raises PluginError when one that `only` names is
        broken, PluginNotFoundError when it isn't installed, OptionError for a bad selection, option or file.
        """
        environment = os.environ if environment is None else environment
        if config is None:
            config = find_config(environment, working_directory(), os.path.expanduser("~"))
        manager = cls(selected or {}, environment, config)
        manager._options = PluginOptions(options, environment, config)
        found = list(entry_points(PLUGIN_GROUP) if installed is None else installed)
        required = only if only is not None else _only_of(environment)
        if required is not None:
            manager._keep_only(found, required)
        for name, target in BUILT_IN:
            manager._add(name, target)
        for name, target in sorted(found):
            manager._add_installed(name, target, found)
        for name in required or ():
            if name in manager.problems:
                raise PluginError(messages.broken(name, manager.problems[name])) from manager.problems[name]
        offers = [entry.offers.values() for entry in manager._entries.values()]
        manager._options.check_names({name for kinds in offers for names in kinds for name in names})
        return manager

    @classmethod
    def from_catalog(cls, catalog: Catalog, environment: Mapping[str, str] | None = None) -> PluginManager:
        """Return a manager for the plugins that another process discovered; it imports a plugin at its first use.

        `environment` (default: the process's) only decides about tracing: the selection is in the catalog.
        """
        manager = cls({}, os.environ if environment is None else environment, None)
        manager._inherited = catalog
        manager._options = PluginOptions(catalog.options)
        manager._entries = {entry.name: entry for entry in catalog.entries}
        manager._targets = {entry.name: entry.target for entry in catalog.entries}
        manager.problems = {name: PluginError(text) for name, text in catalog.problems.items()}
        return manager

    def catalog(self) -> Catalog:
        """Return the discovered plugins and the selection, for `from_catalog` in another process."""
        selections = {kind.name: self.selection(kind.name) for kind in KINDS.values() if kind.environment}
        problems = {name: f"{summary(error)}{lines_of(error)}" for name, error in self.problems.items()}
        return Catalog(tuple(self._entries.values()), selections, problems, self.shared_options())

    def selected_names(self) -> dict[str, str | list[str]]:
        """Return the selection, by kind, as `discover` takes it; all nodes of a session must use the same."""
        names: dict[str, str | list[str]] = {}
        for kind in _SHARED:
            selection = self.selection(kind.name)
            if not selection.is_default:
                chosen = list(selection.names)
                names[kind.name] = chosen[0] if kind.pattern == "driver" else chosen
        return names

    def shared_options(self) -> dict[str, dict[str, Any]]:
        """Return the options of implementations that every process of a session uses: name to option to value.

        Raises OptionError when an implementation was given options that it does not take.
        """
        options = {}
        for kind in _SHARED:
            selection = self.selection(kind.name)
            for name in filter(self._options.of, selection.names):
                options[name] = self._options.values(kind, name, self._factory(kind, name, selection))
        return options

    # -- choosing --------------------------------------------------------------------------------------------------

    def choose(self, kind: str, name: str | None = None) -> Factory:
        """Return the factory of the selected implementation of a driver kind; `name` overrides what was selected.

        Its options are filled in (of kinds that are not shared: in the process that discovered). Raises
        PluginNotFoundError when no plugin offers it, PluginError from the original error when its plugin is broken,
        ContractError when two plugins offer it, OptionError when it was given options that it does not take.
        """
        selection = self.selection(kind, name)
        known = _kind(kind, "driver")
        return self._options.bind(known, selection.names[0], self._factory(known, selection.names[0], selection))

    def make(self, kind: str, *arguments: Any) -> Any:
        """Return the selected implementation of a driver kind, made with `arguments`.

        Raises as `choose`; PluginError, which names the plugin and shows its lines, when the factory raises, and
        ContractError when the result lacks a member of the contract. A KernelError of the factory is not wrapped.
        """
        name = self.selection(kind).names[0]
        return self._made(_kind(kind, "driver"), name, self.choose(kind), arguments)

    def make_many(self, kind: str, names: str | Sequence[str] | None = None) -> list[Any]:
        """Return the selected implementations of a named kind, in order. Raises as `make`."""
        chosen = self.selection(kind, names).names
        factories = self.choose_many(kind, names)
        return [self._made(_kind(kind, "named"), *pair, ()) for pair in zip(chosen, factories, strict=True)]

    def label(self, thing: Any) -> str:
        """Return the name of an implementation for messages, such as "the observer of the plugin 'x'"."""
        return self._labels.get(id(thing), f"the plugin object {type(thing).__qualname__}")

    def options_of(self, name: str) -> dict[str, Any]:
        """Return the options that were given to the implementation `name`, unchecked, as text from the environment."""
        return {option: value for option, (value, _) in self._options.of(name).items()}

    def choose_many(self, kind: str, names: str | Sequence[str] | None = None) -> list[Factory]:
        """Return the factories of the selected implementations of a named kind, in order. Raises as `choose`.

        Their options are filled in, but for head services, which get theirs with `start`.
        """
        selection = self.selection(kind, names)
        known = _kind(kind, "named")
        factories = [(name, self._factory(known, name, selection)) for name in selection.names]
        return [make if known.late_options else self._options.bind(known, name, make) for name, make in factories]

    def all(self, kind: str) -> list[Any]:
        """Return everything that all plugins offer of a hook kind. A plugin whose hook raises is skipped.

        Raises ContractError when two accelerators are for the same resource.
        """
        known = _kind(kind, "hook")
        offered: list[tuple[str, Any]] = []
        for entry in list(self._entries.values()):
            if known.hook in entry.hooks:
                try:
                    offered += [(entry.name, thing) for thing in self._offered_things(known, entry.name)]
                except Exception as error:  # a broken plugin is reported and must not take the others along
                    self._skip(entry.name, error)
        if kind == "accelerator":
            _refuse_doubles(offered)
        return [thing for _, thing in offered]

    def selection(self, kind: str, argument: str | Sequence[str] | None = None) -> Selection:
        """Return the selected names of a driver or named kind, and the source of the selection."""
        known = _kind(kind, "driver", "named")
        if self._inherited is not None and argument is None:
            return self._inherited.selections[kind]
        return select(
            known,
            argument=self._selected.get(kind) if argument is None else argument,
            environment=self._environment,
            config=self._config,
            offered=self.offered(kind),
        )

    def offered(self, kind: str) -> dict[str, tuple[str, ...]]:
        """Return the offered names of a driver or named kind, and the plugins that offer each (several: a conflict)."""
        names: dict[str, tuple[str, ...]] = {}
        for entry in self._entries.values():
            for name in entry.offers.get(kind, ()):
                names[name] = (*names.get(name, ()), entry.name)
        return names

    def plugins(self) -> list[PluginInfo]:
        """Return every installed plugin, working or not, by name; the built-in one first."""
        infos = []
        for name, target in self._targets.items():
            entry = self._entries.get(name, CatalogEntry(name, target))
            problem = self.problems.get(name)
            text = summary(problem) if problem else ""
            infos.append(PluginInfo(name, target, entry.hooks, entry.contracts, entry.offers, text))
        return infos

    def plugin(self, name: str) -> Any:
        """Return the module or object of the working plugin `name`, importing it when that has not happened yet."""
        if not self._registry.has_plugin(name):
            self._register(name, self._targets[name])
        return self._registry.get_plugin(name)

    def factory_of(self, plugin: str, kind: str, name: str) -> Factory:
        """Return the factory of `name` that the plugin `plugin` offers, selected or not, contested or not."""
        factory: Factory = self._answer(plugin, _kind(kind, "driver", "named").hook)[name]
        return factory

    def offered_by(self, plugin: str, kind: str) -> Sequence[Any]:
        """Return what the plugin `plugin` offers of a hook kind."""
        return self._answer(plugin, _kind(kind, "hook").hook) or ()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _keep_only(self, found: list[tuple[str, str]], required: Sequence[str]) -> None:
        installed = {name for name, _ in found}
        built_in = {name for name, _ in BUILT_IN}
        for name in required:
            if name not in installed | built_in:
                raise PluginNotFoundError(messages.plugin_not_installed(name, installed))
        found[:] = [(name, target) for name, target in found if name in required]

    def _add_installed(self, name: str, target: str, found: Sequence[tuple[str, str]]) -> None:
        rivals = [other for other in (*BUILT_IN, *found) if other[0] == name and other[1] != target]
        if rivals:
            # A built-in plugin stays; of two other plugins with the same name neither is used.
            error = ContractError(messages.same_plugin_name(name, target, rivals[0][1]))
            self._targets.setdefault(name, target)
            if name in self._entries:
                warn_skipped(f"{name} ({target})", error)
            else:
                self._skip(name, error)
        else:
            self._add(name, target)

    def _add(self, name: str, target: str) -> None:
        """Import, check and register one plugin, or note why not."""
        self._targets[name] = target
        try:
            hooks = self._register(name, target)
            contracts = check_versions(name, hooks, self._answer(name, "kernel_contracts") or {})
            offers = {}
            for hook in hooks:
                kind = KIND_OF_HOOK.get(hook)
                if kind is not None and kind.pattern != "hook":
                    offers[kind.name] = check_offer(name, hook, self._answer(name, hook))
        except Exception as error:  # the import of a plugin's module may raise anything
            if self._registry.has_plugin(name):
                self._registry.unregister(name=name)
            self._skip(name, error)
        else:
            self._entries[name] = CatalogEntry(name, target, hooks, contracts, offers)

    def _skip(self, name: str, error: Exception) -> None:
        self._entries.pop(name, None)
        self.problems[name] = error
        warn_skipped(name, error)

    def _register(self, name: str, target: str) -> tuple[str, ...]:
        module, _, attribute = target.partition(":")
        try:
            plugin: Any = importlib.import_module(module)
        except SystemExit as error:
            raise PluginError(f"{module} called sys.exit({error.code!r}) while it was imported") from error
        for part in filter(None, attribute.split(".")):
            plugin = getattr(plugin, part)
        return register(self._registry, plugin, name)

    def _answer(self, name: str, hook: str) -> Any:
        """Return the answer of the plugin `name` to `hook`, None when it has no such hook; it is called once."""
        if (name, hook) not in self._answers:
            if not self._registry.has_plugin(name):
                self._register(name, self._targets[name])
            others = [plugin for other, plugin in self._registry.list_name_plugin() if other != name]
            answers = self._registry.subset_hook_caller(hook, others)()
            answer = answers[0] if answers else None
            if hook in KIND_OF_HOOK and answer is not None:
                check_offer(name, hook, answer)
            self._answers[name, hook] = answer
        return self._answers[name, hook]

    def _offered_things(self, kind: PluginKind, plugin: str) -> Sequence[Any]:
        """Return the answer of a plugin to the hook of a hook kind, checked against the contract."""
        things: Sequence[Any] = self._answer(plugin, kind.hook)
        for thing in things:
            self._check(kind, f"something that {kind.hook} of the plugin {plugin!r} returned", thing)
            self._labels[id(thing)] = f"the {kind.title} of the plugin {plugin!r}"
        return things

    def _made(self, kind: PluginKind, name: str, factory: Factory, arguments: Sequence[Any]) -> Any:
        plugin = self.offered(kind.name)[name][0]
        try:
            thing = factory(*arguments)
        except KernelError:
            raise
        except Exception as error:
            raise PluginError(messages.not_made(kind, name, plugin, error)) from error
        label = f"the {kind.title} {name!r} of the plugin {plugin!r}"
        self._check(kind, label, thing)
        self._labels[id(thing)] = label
        return thing

    @staticmethod
    def _check(kind: PluginKind, what: str, thing: Any) -> None:
        """Raise ContractError when `thing` lacks a member of the contract of `kind`."""
        if kind.contract:
            module, _, name = kind.contract.partition(".")
            contract = getattr(importlib.import_module(f"kernel_spec.{module}"), name)
            missing = missing_members(thing, contract)
            if missing:
                raise ContractError(messages.not_of_the_contract(kind, what, thing, missing))

    def _factory(self, kind: PluginKind, name: str, selection: Selection) -> Factory:
        offered = self.offered(kind.name)
        owners = offered.get(name, ())
        if len(owners) > 1:
            raise ContractError(messages.same_offer(kind, name, owners))
        if not owners:
            culprit = messages.probable_plugin(kind, name, self.problems)
            if culprit:
                raise PluginError(
                    messages.broken_selected(kind, selection, name, culprit, self.problems[culprit])
                ) from self.problems[culprit]
            missing = PluginNotFoundError(messages.not_found(kind, selection, name, offered, self.problems))
            missing.asked_for = not selection.is_default
            raise missing
        try:
            return self.factory_of(owners[0], kind.name, name)
        except Exception as error:  # the import of a plugin's module, in a process that only has the catalog
            raise PluginError(messages.broken_selected(kind, selection, name, owners[0], error)) from error


def _kind(name: str, *patterns: str) -> PluginKind:
    kind = KINDS.get(name)
    if kind is None or kind.pattern not in patterns:
        fitting = ", ".join(kind.name for kind in KINDS.values() if kind.pattern in patterns)
        raise ValueError(f"{name!r} is no kind of plugin that can be taken this way; there are {fitting}")
    return kind


def _only_of(environment: Mapping[str, str]) -> list[str] | None:
    text = environment.get(ONLY_VARIABLE)
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _refuse_doubles(offered: Sequence[tuple[str, Any]]) -> None:
    owner_of: dict[str, str] = {}
    for plugin, accelerator in offered:
        other = owner_of.setdefault(accelerator.resource, plugin)
        if other != plugin:
            raise ContractError(messages.same_resource(accelerator.resource, other, plugin))
