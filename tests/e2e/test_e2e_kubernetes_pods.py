"""A cluster whose nodes are pods: tasks bring them, idleness takes them back. Processes stand for their containers."""

from __future__ import annotations

from pathlib import Path

from kernel.testing.command_line import CommandLine
from kernel.testing.faults import wait_until
from kernel.testing.session import temporary_root
from plugins.provider_kubernetes.tests.clusters import kubeconfig_for
from plugins.provider_kubernetes.tests.local_kubelet import LocalKubelet
from plugins.provider_kubernetes.tests.stand_in_api import StandInApi

SECONDS = 120.0
PROGRAM = """
import kernel

@kernel.remote(num_cpus=2)
def where():
    return kernel.get_runtime_context().get_node_id()

with kernel.init(address="auto", log_to_driver=False):
    print(len(set(kernel.get([where.remote()], timeout=100))), flush=True)
"""
CONFIGURATION = """
provider = "kubernetes"
[provider_options]
cluster = "tests"
kubeconfig = "{kubeconfig}"
port = 0
[provider_options.kinds.small]
image = "kernel"
cpu = "2"
memory = "512Mi"
object_store_memory = "64Mi"
labels = {{pool = "small"}}
[settings]
idle_seconds = 2
maximum_nodes = 1
"""


def test_tasks_bring_pods_and_idleness_takes_them_back(tmp_path: Path) -> None:
    api = StandInApi()
    api.runs_pods = False
    file = tmp_path / "autoscaler.toml"
    file.write_text(CONFIGURATION.format(kubeconfig=kubeconfig_for(api.url, str(tmp_path))))
    with temporary_root() as root:
        kubelet = LocalKubelet(api, Path(root))
        line = CommandLine(root)
        line.environment["KERNEL_OPTION_AUTOSCALER_CONFIG"] = str(file)
        try:
            line.start("--num-cpus", "0", "--port", "0", "--head-service", "autoscaler")
            assert line.program(PROGRAM).communicate(timeout=SECONDS)[0] == "1\n"
            (row,) = [row for row in line.json("status")["nodes"] if "kernel/provider-id" in row["Labels"]]
            assert row["Labels"]["pool"] == "small" and row["Labels"]["kernel/provider-id"].startswith("tests-small-")
            wait_until(lambda: not api.objects("pods"), SECONDS, "the idle pod to be removed")
            assert not api.objects("secrets"), "the last pod takes the secret along"
        finally:
            line.end()
            kubelet.close()
            api.close()
    assert api.broken == []
