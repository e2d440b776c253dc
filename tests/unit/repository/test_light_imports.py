"""What a program does not use it does not load: starting at once is a promise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = {
    "asyncio", "click", "cloudpickle", "google.protobuf", "grpc", "importlib.metadata", "numpy", "pyarrow", "stevedore",
    "structlog",
}  # fmt: skip
NETWORK = {
    "kernel_network_tcp",
    "kernel_network_tcp.network",
    "kernel_processes.node.networks",
    "kernel_processes.node.object_exchange",
    "kernel_spec.networks",
}
PLUGINS = {"kernel.plugins", "pluggy", "pathlib", "urllib.parse"}
CALLS = {
    "kernel_processes.runtime.actor_calls",
    "kernel_engine.objects.ownership",
    "kernel_engine.serialization.value_serializer",
}
CONTRACTS = {"kernel_spec.store", "kernel_spec.scheduling", "kernel_spec.metadata"}


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("kernel", HEAVY | CONTRACTS | {"pluggy", "kernel_processes.runtime.process_runtime"}),
        ("kernel_processes.session.joining", HEAVY | NETWORK | CONTRACTS),
        ("kernel_processes.worker.main", HEAVY | NETWORK | CONTRACTS),
        ("kernel_processes.node.agent", HEAVY | NETWORK | CALLS | {"pathlib", "urllib.parse"}),
        ("kernel_processes.daemons.head_main", HEAVY | NETWORK | CALLS),
        ("kernel_processes.node.template", HEAVY | CONTRACTS | PLUGINS),
        (
            "kernel_processes.daemons.agent_main",
            HEAVY | NETWORK | CONTRACTS | {"kernel_processes.node.agent", "kernel_processes.runtime.process_runtime"},
        ),
    ],
)
def test_importing_loads_nothing_that_is_not_needed_yet(module: str, never: set[str]) -> None:
    program = f"import sys, {module}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not never & set(done.stdout.split())


def test_plugins_that_are_not_chosen_load_no_more_than_what_they_offer() -> None:
    program = (
        "import sys; from kernel.plugins import PluginManager\n"
        "PluginManager.discover().choose('scheduler'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    offers = {
        "kernel_compat_ray", "kernel_control_grpc", "kernel_environment_pip", "kernel_metadata_redis",
        "kernel_metadata_sqlite", "kernel_scheduler_fair", "kernel_serializer_arrow", "kernel_simulation",
    }  # fmt: skip
    loaded = {name for name in done.stdout.split() if name.partition(".")[0] in offers}
    assert loaded == offers | {f"{name}.plugin" for name in offers}
    assert not {"click", "sqlite3", "redis", "pyarrow"} & set(done.stdout.split())


SESSION = """
import kernel, sys

@kernel.remote
def loaded():
    return list(sys.modules)

kernel.init(num_cpus=1)
print(*sys.modules, *kernel.get(loaded.remote()))
kernel.shutdown()
"""
TLS = {"ssl", "_ssl", "cryptography"}


def test_with_the_network_switched_off_a_session_loads_nothing_of_tcp_or_tls() -> None:
    environment = {**os.environ, "KERNEL_NETWORK": "off", "KERNEL_PRELOAD": ""}
    done = subprocess.run(
        [sys.executable, "-c", SESSION], capture_output=True, text=True, check=True, env=environment, timeout=120
    )
    names = {name for name in done.stdout.split() if name.partition(".")[0] in {"kernel_network_tcp", *TLS}}
    assert "kernel_processes.worker.main" in done.stdout.split() and not names
