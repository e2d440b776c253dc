"""The batch script for Slurm and the application for YARN, with stand-ins for Slurm's commands."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kernel.testing.session import temporary_root
from kernel_processes.cli.start_command import start

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "slurm" / "kernel.sbatch"
YARN = ROOT / "deploy" / "yarn" / "kernel.yaml"
SECONDS = 120.0
SRUN = """#!/bin/bash
# Run a step of the job here, as each host: options up to the host's name are taken away.
while [ "$1" != "-w" ]; do case "$1" in --overlap|--nodes=1|--ntasks=1|--cpus-per-task=2) shift;; *) exit 9;; esac; done
host=$2; shift 2
export KERNEL_TMPDIR="$KERNEL_TMPDIR/$host"; mkdir -p "$KERNEL_TMPDIR"
exec "$@"
"""
PROGRAM = """
import sys
import kernel

with kernel.init(log_to_driver=False):
    print("CPUs", int(kernel.cluster_resources()["CPU"]))
sys.exit(3)
"""


def job(root: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the batch script as a job of three hosts, all of them on loopback."""
    programs = Path(root) / "bin"
    programs.mkdir()
    python = Path(sys.executable)
    for name, text in {
        "srun": SRUN,
        "scontrol": '#!/bin/bash\n[ "$*" = "show hostnames h[1-3]" ] && printf "a\\nb\\nc\\n"\n',
        "hostname": "#!/bin/bash\necho 127.0.0.1 ::1\n",
        "kernel": f'#!/bin/bash\nexec {python} -m kernel.cli.main "$@"\n',
        "python3": f'#!/bin/bash\nexec {python} "$@"\n',
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(stat.S_IRWXU)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "KERNEL_TMPDIR": root, "KERNEL_PORT": str(port),
        "SLURM_JOB_NODELIST": "h[1-3]", "SLURM_CPUS_PER_TASK": "2",
    }  # fmt: skip
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments], env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def test_a_program_has_all_nodes_of_an_allocation_and_its_exit_code_is_the_jobs() -> None:
    with temporary_root() as root:
        file = Path(root) / "program.py"
        file.write_text(PROGRAM)
        done = job(root, "python3", str(file))
    assert done.returncode == 3, done.stderr
    assert re.search(r"^CPUs 6$", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_a_job_without_a_program_says_what_to_give() -> None:
    with temporary_root() as root:
        done = job(root)
    assert done.returncode == 2 and "give the program to run, such as: sbatch kernel.sbatch python" in done.stderr


def options_of_start() -> set[str]:
    return {name for one in start.params for name in one.opts}


@pytest.mark.parametrize("name", ["kernel-head", "kernel-worker"])
def test_the_application_for_yarn_is_bash_and_starts_nodes_as_kernel_does(name: str) -> None:
    said = yaml.safe_load(YARN.read_text())
    assert set(said) == {"name", "queue", "services"} and set(said["services"]) == {"kernel-head", "kernel-worker"}
    service = said["services"][name]
    assert set(service) <= {"instances", "max_restarts", "depends", "resources", "files", "script"}
    assert set(service["resources"]) == {"vcores", "memory"}
    done = subprocess.run(["bash", "-n"], input=service["script"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = re.findall(r"kernel start .*", service["script"])
    assert {word for word in line.split() if word.startswith("--")} <= options_of_start()
