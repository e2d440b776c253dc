"""Providers over a stand-in, for the tests of this plugin."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_provider_kubernetes.provider import KubernetesProvider

from plugins.provider_kubernetes.tests.stand_in_api import StandInApi

JOIN = {"address": "10.0.0.1:6380", "token": "a-secret-of-the-cluster"}
SMALL = {"image": "registry.example/kernel:1", "cpu": "2", "memory": "4Gi"}
_numbers = itertools.count()


def kubeconfig_for(url: str, directory: str, token: str = "") -> str:
    """Write a kubeconfig for a stand-in into a directory, and return its path."""
    file = Path(directory) / "config"
    user = {"token": token} if token else {}
    said = {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "k", "context": {"cluster": "c", "user": "u", "namespace": "work"}}],
        "current-context": "k",
    }
    file.write_text(json.dumps(said))  # JSON is YAML
    return str(file)


def provider_over(api: StandInApi, token: str = "", **more: Any) -> KubernetesProvider:
    """Return a provider of a new cluster (or the one that `more` names) over a stand-in."""
    clocks: dict[str, Callable[[], float]] = {name: more.pop(name) for name in ("clock", "monotonic") if name in more}
    said = {"cluster": f"tests-{next(_numbers)}", "kinds": {"small": SMALL}, **more}
    with tempfile.TemporaryDirectory() as directory:  # It is read once.
        return KubernetesProvider({"kubeconfig": kubeconfig_for(api.url, directory, token), **said}, **clocks)
