"""Cluster files of all dialects, and what is said of files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from kernel_launcher import ClusterPlan, CommandPlan, ContainerPlan, KindPlan, SshAccess
from kernel_launcher.config.document import parse_toml, parse_yaml
from kernel_launcher.config.reading import plan_of, read_plan
from kernel_launcher.config.rewriting import rewrite

from kernel_spec.errors import OptionError
from plugins.launcher.tests.documented import EVERY_KEY_OF_TODAY, EVERY_OLD_KEY, SHOWN

LOCAL = "cluster_name: mine\nprovider: {type: local, head_ip: a, worker_ips: [b, c, d]}\n"


def of(text: str, **changes: object) -> ClusterPlan:
    return plan_of(parse_yaml(text, "cluster.yaml"), **changes)  # type: ignore[arg-type]


def refused(text: str) -> str:
    with pytest.raises(OptionError) as caught:
        of(text)
    return str(caught.value)


@pytest.mark.parametrize("name", SHOWN)
def test_each_file_of_the_documents_is_accepted(name):
    assert of(SHOWN[name]).provider in ("aws", "gcp", "external", "local")


def test_what_a_documented_file_means():
    plan = of(SHOWN["Tune in the cloud"])
    assert (plan.name, plan.provider, plan.provider_options) == ("tune-default", "aws", {"region": "us-west-2"})
    assert (plan.minimum_workers, plan.maximum_workers, plan.start_workers) == (3, 3, 3)
    machine = {"InstanceType": "c5.xlarge", "ImageId": "ami-0b294f219d14e6a82"}
    assert plan.kinds == {"head": KindPlan("head", machine, maximum=0), "worker": KindPlan("worker", machine)}
    assert plan.ssh == SshAccess("ubuntu") and plan.head_host == ""
    assert plan.commands.setup == ("pip install ray torch torchvision tabulate tensorboard",)
    assert plan.remarks == (
        "provider.ssh_from is not said: the head's port 22 is opened to no network by the provider aws",
        "commands that install ray are run as they are; kernel must be installed beside it, by a command",
    )


def test_machines_of_ones_own():
    plan = of(SHOWN["Tune on machines of one's own"])
    assert plan.head_host == "YOUR_HEAD_NODE_HOSTNAME"
    assert plan.worker_hosts == ("WORKER_NODE_1_HOSTNAME", "WORKER_NODE_2_HOSTNAME", "...")
    assert plan.start_workers == 3 and not plan.scales
    assert plan.ssh.key == str(Path("~/.ssh/id_rsa").expanduser())


def test_every_key_of_085():
    plan = of(EVERY_OLD_KEY)
    assert (plan.minimum_workers, plan.maximum_workers, plan.start_workers, plan.idle_seconds) == (0, 2, 1, 300.0)
    assert plan.container is None
    assert plan.commands.head_start == ("$KERNEL_STOP", "ulimit -n 65536; $KERNEL_START")
    assert plan.commands.worker_start == ("$KERNEL_STOP", "ulimit -n 65536; $KERNEL_START")
    assert [remark.split()[0] for remark in plan.remarks] == [
        "autoscaling_mode", "no_restart", "target_utilization_fraction", "provider.ssh_from", "without",
    ]  # fmt: skip
    assert plan.remarks[-1] == (
        "without effect, of `ray start`: --object-manager-port; `kernel start` has no counterpart"
    )


def test_every_key_of_today():
    plan = of(EVERY_KEY_OF_TODAY)
    assert plan.container == ContainerPlan(
        "podman", "ray_container", "rayproject/ray:latest", "rayproject/ray:latest",
        ("--ulimit nofile=65536:65536",), ("--ulimit nofile=65536:65536",), False,
    )  # fmt: skip
    small = KindPlan(
        "ray_worker_small", {"machineType": "n1-standard-2"}, {"CPU": 2.0, "custom": 1.0}, {"tier": "small"}, 1, 2,
        ("echo small",),
    )  # fmt: skip
    assert plan.kinds["ray_worker_small"] == small and plan.head_kind == "ray_head_default"
    assert (plan.minimum_workers, plan.maximum_workers) == (1, 2)
    assert (plan.exclude, plan.filters) == (("**/.git", "**/.git/**"), (".gitignore",))
    assert plan.ssh == SshAccess("ubuntu", proxy_command="ssh -W %h:%p gateway")
    assert plan.commands.outside == ("echo outside",)
    assert {remark.split()[0] for remark in plan.remarks} == {
        "file_mounts_sync_continuously", "metadata", "no_restart", "upscaling_speed", "worker_default_node_type",
        "docker.disable_automatic_runtime_detection", "docker.disable_shm_size_detection",
        "available_node_types.ray_worker_small.docker", "without",
    }  # fmt: skip


@pytest.mark.parametrize(
    "more, numbers",
    [
        ("", (3, 3, 3)),
        ("max_workers: 2\n", (2, 2, 2)),
        ("min_workers: 1\n", (1, 1, 1)),
        ("min_workers: 1\nmax_workers: 2\n", (1, 2, 1)),
        ("min_workers: 3\nmax_workers: 2\n", (2, 2, 2)),
        ("min_workers: 0\ninitial_workers: 2\nmax_workers: 9\n", (0, 3, 2)),
        ("max_workers: 0\n", (0, 0, 0)),
    ],
)
def test_numbers_are_of_workers_alone(more, numbers):
    plan = of(LOCAL + more)
    assert (plan.minimum_workers, plan.maximum_workers, plan.start_workers) == numbers


def test_options_change_numbers():
    plan = of(LOCAL, name="other", maximum_workers=2, minimum_workers=1)
    assert (plan.name, plan.minimum_workers, plan.maximum_workers, plan.start_workers) == ("other", 1, 2, 2)
    with pytest.raises(OptionError, match=r"--max-workers 4: the cluster file has 3 machines for workers"):
        of(LOCAL, maximum_workers=4)
    with pytest.raises(OptionError, match=r"--min-workers 4 is more than the maximum of 3 workers"):
        of(LOCAL, minimum_workers=4)


def test_clusters_of_one_name_in_different_places_have_different_keys():
    one, other = of(LOCAL), of(LOCAL.replace("head_ip: a", "head_ip: x"))
    assert one.name == other.name and one.key != other.key and one.key.startswith("mine-")
    cloud = "cluster_name: mine\nprovider: {type: aws, region: %s}\n"
    assert of(cloud % "a").key != of(cloud % "b").key == of(cloud % "b").key


@pytest.mark.parametrize(
    "text, said",
    [
        (
            LOCAL + "file_mount: {}\n",
            "cluster.yaml:3:1: 'file_mount' is no key of a cluster file; did you mean 'file_mounts'?",
        ),
        (LOCAL + "auth: {ssh_usr: me}\n", "cluster.yaml:3:8: 'ssh_usr' is no key of auth; did you mean 'ssh_user'?"),
        (LOCAL + "docker:\n  imag: x\n", "cluster.yaml:4:3: 'imag' is no key of docker; did you mean 'image'?"),
        (
            LOCAL + "max_workers: many\n",
            "cluster.yaml:3:1: max_workers must be a whole number, zero or more, not 'many'",
        ),
        (LOCAL + "setup_commands: [{a: 1}]\n", "cluster.yaml:3:18: setup_commands.0 must be a text, not {'a': 1}"),
        (LOCAL + "setup_commands: echo\n", "cluster.yaml:3:1: setup_commands must be a list, not 'echo'"),
        (LOCAL + "docker: []\n", "cluster.yaml:3:1: docker must be a mapping of keys to values, not []"),
        (LOCAL + "cluster_name: b\n", "cluster.yaml:3:1: the key 'cluster_name' is there twice; leave one of them"),
        (LOCAL + "a: [\n", "cluster.yaml:4:1: this is no YAML: expected the node content, but found '<stream end>'"),
        ("- a\n", "cluster.yaml: a cluster file is a mapping of keys to values, not a list"),
        ("", "cluster.yaml: a cluster file is a mapping of keys to values, not nothing"),
        (
            "cluster_name: a\n",
            "cluster.yaml: provider needs a type, such as {type: local, head_ip: HOST, worker_ips: [HOST, ...]}",
        ),
        ("provider: {type: aws}\n", "cluster.yaml: the file needs a cluster_name: what the cluster is called"),
        (
            "cluster_name: a b\nprovider: {type: aws}\n",
            "cluster.yaml: a cluster can't be called 'a b': letters, digits, and _ . - after the first, 63 at most",
        ),
        (
            "cluster_name: a\nprovider: {type: local}\n",
            "cluster.yaml:2:1: provider needs head_ip, the machine that is to be the head, or coordinator_address",
        ),
        (
            "cluster_name: a\nprovider: {type: local, head_ip: x, worker_ips: [y, x]}\n",
            "cluster.yaml:2:53: provider.worker_ips.1 is the head (x): a machine is one of them",
        ),
        (
            LOCAL + "head_node: {a: 1}\navailable_node_types: {h: {}}\nhead_node_type: h\n",
            "cluster.yaml:3:1: head_node is of Ray 0.8.5, and available_node_types of later files: say kinds of "
            "machines in available_node_types alone",
        ),
        (LOCAL + "head_node_type: h\n", "cluster.yaml:3:1: head_node_type needs available_node_types beside it"),
        (
            LOCAL + "available_node_types: {h: {}}\nhead_node_type: g\n",
            "cluster.yaml:4:1: head_node_type must be one of available_node_types, h, not g",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_line_and_column(text, said):
    assert refused(text) == said


def test_keys_that_are_merged_in_are_not_there_twice():
    plan = of(
        "cluster_name: a\nprovider: {type: aws}\n"
        "head_node: &machine {InstanceType: x, ImageId: y}\nworker_nodes: {<<: *machine, InstanceType: z}\n"
    )
    assert plan.kinds["worker"].options == {"InstanceType": "z", "ImageId": "y"}


OWN = """
name = "mine"
exclude = ["*.pyc"]

[provider]
name = "local"
head = "10.0.0.1"
workers = ["10.0.0.2", "10.0.0.3:2222"]

[ssh]
user = "me"
key = "keys/mine"

[workers]
minimum = 1
maximum = 2
idle_seconds = 60

[files]
"~/code" = "code"

[commands]
setup = ["pip install x"]

[container]
image = "python:3.11"
program = "podman"
"""


def test_kernels_own_file(tmp_path):
    (tmp_path / "cluster.toml").write_text(OWN)
    plan = read_plan(tmp_path / "cluster.toml")
    assert (plan.name, plan.head_host, plan.worker_hosts) == ("mine", "10.0.0.1", ("10.0.0.2", "10.0.0.3:2222"))
    assert (plan.minimum_workers, plan.maximum_workers, plan.idle_seconds, plan.scales) == (1, 2, 60.0, True)
    assert plan.ssh == SshAccess("me", str(tmp_path / "keys" / "mine"))
    assert [(one.remote, one.local) for one in plan.files] == [("~/code", str(tmp_path / "code"))]
    assert plan.commands == CommandPlan(setup=("pip install x",)) and plan.exclude == ("*.pyc",)
    assert plan.container == ContainerPlan("podman", "kernel", "python:3.11", "python:3.11")


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("minimum = 1", "minimun = 1", "c.toml:15:1: 'minimun' is no key of workers; did you mean 'minimum'?"),
        ("maximum = 2", "maximum = 3", "c.toml:16:1: workers.maximum is 3, and provider.workers names 2 machines"),
        ("minimum = 1", "minimum = 3", "c.toml:15:1: workers.minimum is 3, more than the maximum, 2"),
        ("podman", "runc", "c.toml:27:1: container.program must be docker or podman, not runc"),
        ('head = "10.0.0.1"', "", "c.toml:5:1: provider needs head: the machine that is to be the head"),
    ],
)
def test_what_is_wrong_in_kernels_own_file(old, new, said):
    with pytest.raises(OptionError) as caught:
        plan_of(parse_toml(OWN.replace(old, new), "c.toml"))
    assert str(caught.value) == said


def test_kernels_own_file_in_yaml():
    plan = of(
        "name: mine\nprovider: {name: gcp, project: p}\nkinds: {head: {}, small: {options: {type: n1}, minimum: 1}}\n"
    )
    assert (plan.provider, plan.provider_options) == ("gcp", {"project": "p"})
    assert plan.kinds["small"].options == {"type": "n1"} and plan.minimum_workers == 1


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(OptionError, match=r"the cluster file .*/none.yaml can't be read: No such file or directory"):
        read_plan(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    "command, rewritten, dropped",
    [
        ("ray stop", "$KERNEL_STOP", []),
        ("ray stop; ray start --head", "$KERNEL_STOP; $KERNEL_START", []),
        (
            "ulimit -c unlimited && ray start --head --redis-port=6379 && echo",
            "ulimit -c unlimited && $KERNEL_START && echo",
            [],
        ),
        (
            "ray start --address $RAY_HEAD_IP:6379 --num-cpus 4 --resources='{\"a\": 1}' --object-manager-port=8076",
            "$KERNEL_START --num-cpus 4 --resources '{\"a\": 1}'",
            ["--object-manager-port"],
        ),
        ("ray start --head --block > log", "$KERNEL_START > log", ["--block"]),
        ("echo ray starts; /opt/ray start; pip install ray", "echo ray starts; /opt/ray start; pip install ray", []),
    ],
)  # fmt: skip
def test_start_commands_of_ray_become_kernels(command, rewritten, dropped):
    assert rewrite(command) == (rewritten, dropped)
