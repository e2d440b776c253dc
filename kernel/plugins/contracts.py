"""Check a plugin against the contracts when it is registered, and report what is wrong in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import pluggy

from kernel.plugins.kinds import KIND_OF_HOOK
from kernel.plugins.selection import nearest
from kernel_spec import hooks
from kernel_spec.errors import ContractError
from kernel_spec.version import CONTRACTS, __version__

_HOOKS = [hook for hook in dir(hooks) if hook.startswith("kernel_")]


class ContractRegistry(pluggy.PluginManager):
    """A registry that knows all hooks.

    Most names in a module are not functions. Pluggy's own way to find that out, which must not run properties, took a
    tenth of an agent's start; looking into a module runs nothing.
    """

    def __init__(self) -> None:
        super().__init__(hooks.PROJECT)
        self.add_hookspecs(hooks)

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> pluggy.HookspecOpts | None:
        """Return the options of the hook `name`, or None if it is not a hook."""
        return super().parse_hookspec_opts(module_or_class, name) if _may_be_hook(module_or_class, name) else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return the options of the hook implementation `name` of `plugin`, or None if it is not one."""
        return super().parse_hookimpl_opts(plugin, name) if _may_be_hook(plugin, name) else None


def register(registry: ContractRegistry, plugin: object, name: str) -> tuple[str, ...]:
    """Register `plugin`; return the hooks that it implements, which exist and whose signatures fit.

    Raises ContractError naming the plugin, the hook and the rule; then it is not registered.
    """
    found = tuple(attribute for attribute, _ in _implementations(registry, plugin))
    for hook in found:
        if hook not in _HOOKS:
            raise ContractError(
                f"plugin {name!r} implements the hook {hook!r}, which does not exist{nearest(hook, _HOOKS)}; "
                f"the hooks are listed in kernel_spec/hooks.py"
            )
    if not found:
        raise ContractError(
            f"plugin {name!r} implements no hook: mark its functions with `@hookimpl` from kernel_spec, "
            f"or point its entry point at the module that has them"
        )
    try:
        registry.register(plugin, name)
    except pluggy.PluginValidationError as error:
        registry.unregister(name=name)
        raise ContractError(_signature_problem(plugin, name, found, error)) from error
    return found


def check_versions(name: str, implemented: tuple[str, ...], contracts: object) -> Mapping[str, int]:
    """Return `contracts` (what the plugin's `kernel_contracts` answered) if this kernel can honour it.

    Raises ContractError naming the plugin, the contract and both versions.
    """
    example = next((KIND_OF_HOOK[hook].name for hook in implemented if hook in KIND_OF_HOOK), "scheduler")
    if not isinstance(contracts, Mapping):
        raise ContractError(
            f"plugin {name!r}: kernel_contracts must return a mapping such as "
            f"{{{example!r}: {CONTRACTS[example]}}}, not {contracts!r}"
        )
    for contract, version in contracts.items():
        if contract not in CONTRACTS:
            raise ContractError(
                f"plugin {name!r} was written for the contract {contract!r}, which kernel-spec {__version__} does "
                f"not have{nearest(str(contract), CONTRACTS)}"
            )
        if version != CONTRACTS[contract]:
            older = isinstance(version, int) and version < CONTRACTS[contract]
            raise ContractError(
                f"plugin {name!r} was written for version {version!r} of the {contract} contract, this kernel has "
                f"version {CONTRACTS[contract]}: {'update the plugin' if older else 'update kernel'}"
            )
    for hook in implemented:
        kind = KIND_OF_HOOK.get(hook)
        if kind is not None and kind.name not in contracts:
            raise ContractError(
                f"plugin {name!r} implements {hook} but does not say for which version of the {kind.name} contract: "
                f"let its kernel_contracts return {{{kind.name!r}: {CONTRACTS[kind.name]}}} as well"
            )
    return dict(contracts)


def check_offer(name: str, hook: str, answer: object) -> tuple[str, ...]:
    """Return the names of implementations in the `answer` of `hook`. Raises ContractError for an invalid answer."""
    kind = KIND_OF_HOOK[hook]
    if kind.pattern == "hook":
        if isinstance(answer, (list, tuple)):
            return ()
        raise ContractError(f"plugin {name!r}: {hook} must return a list, not {answer!r}")
    if not isinstance(answer, Mapping):
        raise ContractError(f"plugin {name!r}: {hook} must return a mapping of name to factory, not {answer!r}")
    for offered, factory in answer.items():
        if not isinstance(offered, str) or not offered or "," in offered or not callable(factory):
            raise ContractError(
                f"plugin {name!r}: {hook} must map a name without commas to something callable, "
                f"not {offered!r} to {factory!r}"
            )
    return tuple(answer)


def _may_be_hook(plugin: object, name: str) -> bool:
    return not isinstance(plugin, ModuleType) or inspect.isroutine(vars(plugin).get(name))


def _implementations(registry: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, Any]]:
    for attribute in dir(plugin):
        options = registry.parse_hookimpl_opts(plugin, attribute)
        if options is not None:
            yield options.get("specname") or attribute, options


def _signature_problem(plugin: object, name: str, found: tuple[str, ...], error: Exception) -> str:
    """Say which hook's arguments are wrong, and what they may be."""
    for hook in found:
        specification, implementation = getattr(hooks, hook), getattr(plugin, hook, None)
        if implementation is None:
            continue
        allowed, given = _arguments(specification), _arguments(implementation)
        surplus = [argument for argument in given if argument not in allowed]
        if surplus:
            takes = f"only {', '.join(allowed)}" if allowed else "no arguments"
            return f"plugin {name!r}: its {hook} asks for {', '.join(surplus)}, but the hook takes {takes}"
    return f"plugin {name!r} does not fit the hooks: {error}"


def _arguments(function: Any) -> list[str]:
    return [parameter for parameter in inspect.signature(function).parameters if parameter != "self"]
