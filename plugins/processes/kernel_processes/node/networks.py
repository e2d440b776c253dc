"""Choose and import the network of a node: see `kernel_spec.networks`."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.transport.networks import load_network
from kernel_spec.errors import OptionError, PluginError, PluginNotFoundError
from kernel_spec.hooks import NETWORK_GROUP
from kernel_spec.ids import NodeId
from kernel_spec.networks import OFF, TCP, VARIABLE, NetworkSettings
from kernel_spec.tls_files import TlsFiles

OWN, EXTRA = "kernel_network_tcp.network:network", "network_tcp"
"""The target of the default network, as in its entry point, and the extra of kernel that installs it.

It is not looked up, because looking up entry points takes longer than opening this network. No other distribution can
offer its name.
"""


def network_name(environment: Mapping[str, str]) -> str:
    """Return the name of the network: KERNEL_NETWORK of `environment`, or the default."""
    return environment.get(VARIABLE, "").strip() or TCP


def find_network(name: str) -> str:
    """Import a network, and return its target ("module:attribute"): by that `load_network` has it in any process.

    Raises PluginNotFoundError when none of that name is installed, ContractError when several are, PluginError when it
    can't be imported, and OptionError where the network is switched off.
    """
    if name == OFF:
        raise OptionError(
            f"a node that works with other machines, and a program that joins a cluster, need a network, and it is "
            f"switched off ({VARIABLE}={OFF}): choose {TCP!r}, or another that is installed"
        )
    target = OWN
    if name != TCP:
        from kernel.plugins.installed_target import target_named

        target = target_named(NETWORK_GROUP, "network", name, (TCP, OFF), VARIABLE)
    try:
        load_network(target)
    except Exception as error:  # A plugin's module may raise anything on import.
        if name != TCP:
            said = f"{type(error).__name__}: {error}"
            raise PluginError(f"the network {name!r} ({target}) can't be imported: {said}") from error
        if not isinstance(error, ModuleNotFoundError) or error.name != target.partition(".")[0]:
            raise
        from kernel.installing import install_command

        raise PluginNotFoundError(
            "a node that works with other machines, and a program that joins a cluster, need the network "
            f"{TCP!r}, which is not installed: {install_command(EXTRA)}"
        ) from None
    return target


def usable_tls(directory: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> TlsFiles | None:
    """Return the files of TLS in `directory`, None without one.

    Raises OptionError when the network that is meant can't use them, and what `find_network` raises.
    """
    if not directory:
        return None
    files = TlsFiles.of_directory(os.fspath(directory))
    load_network(find_network(network_name(environment))).check_tls(files)
    return files


def network_settings(config: AgentConfig) -> NetworkSettings:
    """Return the settings of the network for an agent with these settings."""
    return NetworkSettings(
        NodeId(config.node),
        config.directory,
        config.token,
        config.listen,
        config.any_port,
        config.advertised,
        config.relay,
        config.tls,
    )
